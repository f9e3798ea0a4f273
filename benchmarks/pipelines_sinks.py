"""How fast does Spark write to a topic, by either way?

    .venv-spark/bin/python -m benchmarks.pipelines_sinks
    .venv-spark/bin/python -m benchmarks.pipelines_sinks --records 50000 --partitions 2 --repeat 1

Two tasks write rows with a key of eight digits and a value of so many bytes, made by Spark on the
way; when a run ends, all are acknowledged by all replicas (there is one). The rows are counted in
the topic. The connector's producer has Java's defaults, ours what the sink gives it.
"""

from __future__ import annotations

import asyncio
import itertools

from barnabas_client import TopicPartition
from barnabas_client.admin import Admin, NewTopic, OffsetSpec
from barnabas_pipelines.sinks import write_topic
from benchmarks.spark_trial import SparkTrial, Way, parser, spark_trial

_runs = itertools.count()


def main() -> None:
    """Write, count, tell."""
    options = parser((__doc__ or "").splitlines()[0]).parse_args()
    with spark_trial("pipelines-sinks", options) as trial:
        for size in options.sizes:
            for partition_count in options.partitions:
                _compare(trial, size, partition_count)


def _compare(trial: SparkTrial, size: int, partition_count: int) -> None:
    count = trial.options.records
    topics: list[tuple[Way, str]] = []

    def write(way: Way) -> float:
        topic = f"written-{next(_runs)}"
        asyncio.run(_create(way, topic, partition_count))
        topics.append((way, topic))
        frame = trial.spark.range(0, count, 1, 2).selectExpr(
            "lpad(id, 8, '0') key", f"repeat(char(65 + id % 26), {size}) value"
        )
        options = {"kafka.bootstrap.servers": way.broker.bootstrap, "topic": topic}
        write_topic(frame, options, via=way.via)
        return 0.0

    what = f"{size} B, {partition_count} partition{'s' * (partition_count > 1)}"
    trial.compare(f"write, {what}", count, write)
    for way, topic in topics:
        written = asyncio.run(_count_and_delete(way, topic, partition_count))
        if written != count:
            raise RuntimeError(f"{way.name} wrote {written} of {count} rows")


async def _create(way: Way, topic: str, partition_count: int) -> None:
    async with Admin(way.broker.bootstrap) as admin:
        new = NewTopic(name=topic, partition_count=partition_count, replication_factor=1)
        (await admin.topics.create([new])).unwrap()


async def _count_and_delete(way: Way, topic: str, partition_count: int) -> int:
    async with Admin(way.broker.bootstrap) as admin:
        ends = {TopicPartition(topic, one): OffsetSpec.LATEST for one in range(partition_count)}
        found = (await admin.partitions.list_offsets(ends)).unwrap()
        (await admin.topics.delete([topic])).unwrap()
        return sum(one.offset or 0 for one in found.values())


if __name__ == "__main__":
    main()

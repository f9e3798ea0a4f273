"""How fast does Spark read a topic, by either way, and how does that grow with partitions?

    .venv-spark/bin/python -m benchmarks.pipelines_sources
    .venv-spark/bin/python -m benchmarks.pipelines_sources --records 50000 --partitions 2 --repeat 1

A batch sums up the lengths of all values; a stream reads all there is (`availableNow`) into Spark's
sink that forgets. Both count what they read. Of a stream the time outside of its triggers is told
apart, as its start: processes that begin, and the query's end. Spark has two tasks at once
(`local[2]`).
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time

from barnabas_pipelines.sources import read_topic, read_topic_stream
from benchmarks.spark_trial import SparkTrial, Way, load, parser, spark_trial


def main() -> None:
    """Load, read, tell."""
    options = parser((__doc__ or "").splitlines()[0]).parse_args()
    with spark_trial("pipelines-sources", options) as trial:
        for size in options.sizes:
            for partition_count in options.partitions:
                topic = f"records-{size}-{partition_count}"
                for broker in trial.brokers:
                    load(broker, topic, partition_count, os.urandom(size), options.records)
                _compare(trial, topic, size, partition_count)


def _compare(trial: SparkTrial, topic: str, size: int, partition_count: int) -> None:
    count = trial.options.records
    what = f"{size} B, {partition_count} partition{'s' * (partition_count > 1)}"

    def batch(way: Way) -> float:
        frame = read_topic(trial.spark, _options(way, topic), via=way.via)
        read = frame.selectExpr("count(*) records", "sum(length(value)) bytes").collect()[0]
        if (read["records"], read["bytes"]) != (count, count * size):
            raise RuntimeError(f"{way.name} read {read} of {count} records")
        return 0.0

    def stream(way: Way) -> float:
        checkpoint = tempfile.mkdtemp(prefix="barnabas-bench-")
        try:
            frame = read_topic_stream(trial.spark, _options(way, topic), via=way.via)
            writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
            began = time.monotonic()
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
            seconds = time.monotonic() - began
            in_triggers = sum(one["durationMs"]["triggerExecution"] for one in query.recentProgress)
            read = sum(progress["numInputRows"] for progress in query.recentProgress)
            if read != count:
                raise RuntimeError(f"{way.name} read {read} of {count} records")
            return float(seconds - in_triggers / 1000)
        finally:
            shutil.rmtree(checkpoint, ignore_errors=True)

    trial.compare(f"batch, {what}", count, batch)
    trial.compare(f"stream, {what}", count, stream)


def _options(way: Way, topic: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": way.broker.bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
    }


if __name__ == "__main__":
    main()

"""Reading topics in tests of the source, both ways, and queries that run to their end."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas_client import Producer
from barnabas_client.admin import Admin, NewPartitions
from barnabas_pipelines.schema import ddl
from tests.pipelines.spark.records import RecordToSend

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

WAYS = ("kafka", "barnabas")


def read(
    spark: "SparkSession", way: str, bootstrap: str, topic: str | None, **options: object
) -> "DataFrame":
    """A batch read; `kafka__x__y` is the option `kafka.x.y`."""
    reader = spark.read.format(way).option("kafka.bootstrap.servers", bootstrap)
    if topic is not None:
        reader = reader.option("subscribe", topic)
    for name, value in options.items():
        reader = reader.option(name.replace("__", "."), str(value))
    return reader.load()


def rows(frame: "DataFrame") -> "list[Row]":
    """All rows, by topic, partition and offset."""
    return sorted(frame.collect(), key=lambda row: (row.topic, row.partition, row.offset))


def places(frame: "DataFrame") -> list[tuple[int, int]]:
    """Partition and offset of all rows, in order."""
    found = frame.select("partition", "offset").collect()
    return sorted((row.partition, row.offset) for row in found)


class Stream:
    """A query on one topic that writes into Parquet, and can be stopped and started."""

    def __init__(self, spark: "SparkSession", bootstrap: str, folder: Path) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.folder = folder

    def start(
        self, topic: str, trigger: dict[str, Any] | None = None, **options: Any
    ) -> "StreamingQuery":
        """Start from the checkpoint, or from the earliest offsets."""
        given: dict[str, Any] = {"startingOffsets": "earliest", **options}
        name = given.pop("by", "subscribe")
        reader = self.spark.readStream.format("barnabas").option("bootstrapServers", self.bootstrap)
        reader = reader.option(str(name), topic)
        for option, value in given.items():
            reader = reader.option(option.replace("__", "."), str(value))
        writer = reader.load().writeStream.format("parquet")
        return (
            writer.option("path", str(self.folder / "table"))
            .option("checkpointLocation", str(self.folder / "checkpoint"))
            .trigger(**(trigger or {"availableNow": True}))
            .start()
        )

    def run(self, topic: str, **options: Any) -> "StreamingQuery":
        """Read all there is, then end."""
        query = self.start(topic, **options)
        assert query.awaitTermination(90), "the query has not ended"
        return query

    def written(self) -> "list[tuple[str, int, int, bytes]]":
        """Topic, partition, offset and value of all rows that were written."""
        schema = ddl(include_headers=False)
        frame = self.spark.read.schema(schema).parquet(str(self.folder / "table"))
        found = frame.select("topic", "partition", "offset", "value").collect()
        return sorted((r.topic, r.partition, r.offset, bytes(r.value)) for r in found)


def numbered(count: int, partitions: int = 1, *, start: int = 0) -> list[RecordToSend]:
    """Records with numbers as values, dealt out over the partitions."""
    return [
        RecordToSend(value=b"%d" % number, partition=number % partitions)
        for number in range(start, start + count)
    ]


async def produce_batches(
    bootstrap: str, topic: str, batches: list[tuple[str, list[RecordToSend]]]
) -> None:
    """Write each list with its codec."""
    for codec, some in batches:
        async with Producer(bootstrap, compression_type=codec) as producer:
            for record in some:
                producer.send(
                    topic,
                    record.value,
                    key=record.key,
                    partition=record.partition,
                    timestamp_ms=record.timestamp_ms,
                    headers=record.headers,
                )
            await producer.flush()


async def add_partitions(bootstrap: str, topic: str, total: int) -> None:
    """Let the topic have so many partitions."""
    async with Admin(bootstrap) as admin:
        (await admin.topics.add_partitions({topic: NewPartitions(total_count=total)})).unwrap()

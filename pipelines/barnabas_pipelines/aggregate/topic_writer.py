"""Writes batch after batch to one topic, from the driver, as one producer that later runs fence.

Tasks write nothing: one that Spark has given up, or whose executor was cut off, has nothing that
it could write too late. What is left is a driver that was given up. Its records have a lower
producer epoch (`writer_epochs.py`), and a partition with records of a higher one refuses them.

So the newest row of a key is right: a run that goes on with a checkpoint writes again whatever
batch was not finished, with every key of it, in the same partitions; where it has, the run before
it is refused, and where it has not yet, its own rows come later.

A checkpoint that was put back from an older copy would give away producer epochs twice. Brokers
refuse them, or take their records for repeated ones if the numbers fit; so each acknowledgement
must be of an offset at or behind the end that the partition had before the batch was written.

Not here: from a frame to Arrow (`rows_of`, below, apart), the producer's thread
(`datasource/record_sender.py`).

Invariants: `write` returns when every row is acknowledged; after an error nothing more is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from barnabas_client.errors import BarnabasError, FencedError
from barnabas_client.producer import Producer, ProducerIdentity
from barnabas_client.producer.delivery import Deliveries
from barnabas_pipelines.aggregate.writer_epochs import Place, WriterEpochs
from barnabas_pipelines.datasource.loop_thread import close_quietly, loop_thread
from barnabas_pipelines.datasource.record_sender import RecordSender
from barnabas_pipelines.errors import DeliveryError, PipelineError
from barnabas_pipelines.jobs.cluster_facts import ClusterFacts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_CHUNK_ROWS: Final = 10_000
_ROWS_PER_PART: Final = 200_000
"""Rows come to the driver part by part, and the next part while one is sent: twice as many are in
its memory, more or less."""


class OvertakenError(PipelineError):
    """Another run writes as this one did, and has written later."""


class TopicWriter:
    """The writer of one sink in one run; made by `open_writer`."""

    def __init__(
        self,
        producer: Producer,
        topic: str,
        place: Place,
        epochs: WriterEpochs,
        read_ends: Callable[[], Mapping[int, int]],
    ) -> None:
        """`read_ends` returns the log end offsets of the topic."""
        self._producer = producer
        self._topic = topic
        self._place = place
        self._epochs = epochs
        self._read_ends = read_ends
        self._ends: Mapping[int, int] = {}

    def write(self, batches: Iterable[pa.RecordBatch]) -> int:
        """Write rows with the columns of a sink; returns how many, all of them acknowledged.

        Raises: OvertakenError, DeliveryError, ColumnsError, UnreachableError, TopicGoneError.
        """
        self._ends = self._read_ends()
        sender = RecordSender(self._producer, self._topic, self._check_offsets)
        try:
            for batch in batches:
                sender.send(batch)
            return sender.finish()
        except DeliveryError as error:
            sender.abandon()
            if isinstance(error.__cause__, FencedError):
                raise self._overtaken() from error
            raise
        except BaseException:
            sender.abandon()
            raise

    def _check_offsets(self, deliveries: Deliveries) -> None:
        for partition, offset in deliveries.first_offsets():
            if 0 <= offset < self._ends.get(partition, 0):
                raise self._overtaken()

    def _overtaken(self) -> OvertakenError:
        if self._epochs.newest() > self._place.number:
            return OvertakenError(
                f"another run has begun with this checkpoint and writes to {self._topic}: this one "
                "ends"
            )
        return OvertakenError(
            f"{self._topic} has rows of a later run than {self._epochs.folder} knows of: the "
            "checkpoint is an older copy. Make sure that no other run is alive, remove that "
            "folder, and start again"
        )


@contextmanager
def open_writer(
    epochs: WriterEpochs, topic: str, settings: Mapping[str, Any], cluster: ClusterFacts
) -> Iterator[TopicWriter]:
    """A writer with the next place in the line; `settings` are those of the client's producer.

    Raises: UnreachableError, TopicGoneError, DeliveryError.
    """
    thread = loop_thread()

    async def new_identity() -> ProducerIdentity:
        async with Producer(**settings) as producer:
            return await producer.new_identity()

    async def started(identity: ProducerIdentity) -> Producer:
        producer = Producer(**settings, identity=identity)
        await producer.start()
        return producer

    try:
        place = epochs.take(cluster.cluster_id(), lambda: thread.run(new_identity()))
        producer = thread.run(started(place.identity))
    except BarnabasError as error:
        raise DeliveryError(f"rows cannot be written to {topic}: {error}") from error
    try:
        yield TopicWriter(
            producer, topic, place, epochs, lambda: cluster.topics([topic])[topic].ends
        )
    finally:
        close_quietly(thread, producer)


def rows_of(frame: DataFrame, count: int) -> Iterator[pa.RecordBatch]:
    """The rows of a frame that is cheap to read, in the driver: a part of them at a time."""
    types = {"string": pa.string(), "binary": pa.binary()}
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    schema = pa.schema(
        [(one.name, types.get(one.dataType.simpleString(), headers)) for one in frame.schema.fields]
    )
    chunk: list[dict[str, Any]] = []
    for row in _in_parts(frame, count).toLocalIterator(prefetchPartitions=True):
        chunk.append(row.asDict(recursive=True))
        if len(chunk) == _CHUNK_ROWS:
            yield pa.RecordBatch.from_pylist(chunk, schema)
            chunk = []
    if chunk:
        yield pa.RecordBatch.from_pylist(chunk, schema)


def _in_parts(frame: DataFrame, count: int) -> DataFrame:
    """The frame in partitions that the driver can hold: it is given them whole."""
    parts = max(1, -(-count // _ROWS_PER_PART))
    if parts > 1 and parts > frame.rdd.getNumPartitions():
        return frame.repartition(parts)
    return frame.coalesce(parts)

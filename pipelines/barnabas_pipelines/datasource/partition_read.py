"""A worker's part of a read: the records of one range of one partition, as Arrow batches.

A consumer lives in the loop thread of the worker process and is kept for the next task. While Spark
takes what was decoded, the next response is fetched and its checksums are verified; never more than
one response is ahead, besides what the client itself prefetches.

Not here: what is to be read (`batch_reader.py`, `stream_reader.py`).

Invariants: nothing is handed out twice or from behind the end; reading stops at the end of the
range also where no record is left there (compaction, markers of transactions); what is gone is an
error that names it, or is logged if failOnDataLoss is false.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from barnabas_client import Consumer
from barnabas_client.cluster.metadata import TopicMetadata
from barnabas_client.config.consumer_settings import ConsumerSettings
from barnabas_client.consumer.columns import iterate_columns
from barnabas_client.consumer.records import FetchedBatch
from barnabas_client.errors import (
    BarnabasError,
    CorruptRecordError,
    NotFoundError,
    RetriableError,
    SeekRequiredError,
)
from barnabas_client.network.client import Client
from barnabas_pipelines.datasource.cluster_view import ReadSettings, SettingsKey, pipeline_error
from barnabas_pipelines.datasource.loop_thread import KeptClients, loop_thread
from barnabas_pipelines.errors import (
    CorruptDataError,
    DataLossError,
    PipelineError,
    StalledError,
    TopicGoneError,
)
from barnabas_pipelines.offsets import Loss, OffsetRange, loss_text
from barnabas_protocol.errors import ParseError
from barnabas_protocol.ids import ZERO_UUID, TopicPartition, uuid_to_text

if TYPE_CHECKING:
    import pyarrow

_log = logging.getLogger(__name__)

#: One response of a broker, of which three may be in memory: small enough for a worker of a few
#: hundred MiB, large enough that the fixed costs of a response and of a batch vanish.
FETCH_BYTES: Final = 8 * 1024 * 1024
#: Records that are decoded at once, after decompression; one batch may be larger.
CHUNK_BYTES: Final = 8 * 1024 * 1024
_FIRST_POLL_MS: Final = 2
_LONGEST_POLL_MS: Final = 500
_TOPIC_WAIT_MS: Final = 10_000
# How long nothing may come until the log is looked at: it may have been cut. And how long to look:
# brokers that are away are waited for elsewhere.
_SUSPECT_MS: Final = 1_000
_LOOK_MS: Final = 2_000


def read_range(wanted: OffsetRange, settings: ReadSettings) -> Iterator[pyarrow.RecordBatch]:
    """The records of the range, in order.

    Raises: DataLossError, TopicGoneError, CorruptDataError, StalledError, UnreachableError.
    """
    # Not at the top: planning has no need of numpy and pyarrow.
    from barnabas_pipelines.datasource.spark_batches import spark_batches

    try:
        for batches in _responses(wanted, settings):
            chunks = iterate_columns(
                batches, chunk_bytes=CHUNK_BYTES, include_headers=settings.include_headers
            )
            for columns in chunks:
                yield from spark_batches(
                    columns,
                    end=wanted.end,
                    records_max=settings.batch_records,
                    include_headers=settings.include_headers,
                )
    except (CorruptRecordError, ParseError) as error:
        raise CorruptDataError(
            f"{wanted} cannot be read: {error} A batch that is stored broken stays so: look at the"
            " broker's disk, or begin behind it"
        ) from error
    except BarnabasError as error:
        raise pipeline_error(error, settings.servers) from error


def _responses(wanted: OffsetRange, settings: ReadSettings) -> Iterator[list[FetchedBatch]]:
    """Batches that hold the range, the next ones being fetched while these are used."""
    thread = loop_thread()
    with _readers.borrow(settings.client) as reader:
        coming = thread.submit(reader.begin(wanted, settings))
        try:
            while True:
                batches, is_last = coming.result()
                if not is_last:
                    coming = thread.submit(reader.next_batches())
                yield batches
                if is_last:
                    return
        finally:
            coming.cancel()


class RangeReader:
    """A consumer that reads one range after another; all of it runs in the loop."""

    def __init__(self, client: Client, consumer: Consumer) -> None:
        self._client = client
        self._consumer = consumer
        self._wanted: OffsetRange
        self._settings: ReadSettings
        self._partition: TopicPartition
        # Behind what was handed out of the range.
        self._position_read = 0
        # Of the topic that was read last: what is buffered of another one must not be handed out.
        self._topic_id = ""

    async def close(self) -> None:
        """End all connections."""
        await self._consumer.close()
        await self._client.close()

    async def begin(
        self, wanted: OffsetRange, settings: ReadSettings
    ) -> tuple[list[FetchedBatch], bool]:
        """Go to the beginning of the range; then as `next_batches`."""
        self._wanted, self._settings = wanted, settings
        self._partition = TopicPartition(wanted.topic, wanted.partition)
        self._position_read = wanted.start
        if not await self._is_same_topic(await self._topic()):
            self._lose_topic()
            return [], True
        if wanted.topic_id != self._topic_id:
            self._consumer.assign([])
            self._topic_id = wanted.topic_id
        self._consumer.assign([self._partition])
        self._go_to(wanted.start)
        return await self.next_batches()

    async def next_batches(self) -> tuple[list[FetchedBatch], bool]:
        """The next batches that hold records of the range, and whether they are the last."""
        end, poll_ms = self._wanted.end, _FIRST_POLL_MS
        now = asyncio.get_running_loop().time
        seen, seen_at = self._position(), now()
        suspect_at = seen_at + _SUSPECT_MS / 1000
        while True:
            try:
                batches = await self._consumer.poll_batches(timeout_ms=poll_ms)
            except SeekRequiredError as error:
                if await self._leave_gap(error):
                    return [], True
                continue
            position = self._position()
            if batches and not self._has_id(self._client.cluster.topics.get(self._wanted.topic)):
                # The client has found the new topic at the address of the old one.
                self._lose_topic()
                return [], True
            useful = [batch for batch in batches if batch.first_offset < end]
            if useful or position >= end:
                self._position_read = min(position, end)
                return useful, position >= end
            poll_ms = min(2 * poll_ms, _LONGEST_POLL_MS)
            if position != seen:
                seen, seen_at = position, now()
            elif now() - seen_at > self._settings.stall_timeout_ms / 1000:
                raise self._stalled(position)
            if now() > suspect_at:
                suspect_at = now() + _SUSPECT_MS / 1000
                if await self._is_cut(position):
                    return [], True

    def _go_to(self, offset: int) -> None:
        self._consumer.stop_at(self._partition, None)
        self._consumer.seek(self._partition, offset)
        self._consumer.stop_at(self._partition, self._wanted.end)

    def _position(self) -> int:
        return self._consumer.positions()[self._partition].offset

    async def _topic(self) -> TopicMetadata:
        """What is known of the topic; waits while brokers are away, but not for a new topic."""
        name, now = self._wanted.topic, asyncio.get_running_loop().time
        deadline = now() + self._settings.stall_timeout_ms / 1000
        while True:
            try:
                wait_ms = min(_TOPIC_WAIT_MS, self._settings.stall_timeout_ms)
                topic = await self._client.wait_for_topic(name, timeout_ms=wait_ms)
            except NotFoundError as error:
                raise self._topic_gone(f"topic {name} is not there any more") from error
            except RetriableError:
                if now() > deadline:
                    raise
                continue
            if self._wanted.partition in topic.partitions:
                return topic
            # It may be newer than what is known, whose age is up to metadata_max_age_ms.
            fresh = (await self._client.refresh()).topics.get(name)
            if fresh is None or self._wanted.partition not in fresh.partitions:
                raise self._topic_gone(f"{self._partition} is not there any more")
            return fresh

    def _topic_gone(self, what: str) -> PipelineError:
        return TopicGoneError(
            f"{what} on {self._settings.servers}; {self._wanted} were to be read. Read without it,"
            " from a checkpoint that does not know it"
        )

    async def _is_same_topic(self, topic: TopicMetadata) -> bool:
        """Whether the topic has the id that was planned with, by what the cluster says now."""
        if self._has_id(topic):
            return True
        cluster = await self._client.refresh()
        return self._has_id(cluster.topics.get(self._wanted.topic))

    def _has_id(self, topic: TopicMetadata | None) -> bool:
        wanted = self._wanted.topic_id
        if not wanted or topic is None or topic.topic_id == ZERO_UUID:
            return True
        return uuid_to_text(topic.topic_id) == wanted

    async def _leave_gap(self, error: SeekRequiredError) -> bool:
        """Go on behind records that are gone; whether none of the range is left.

        Raises: DataLossError if that is not allowed.
        """
        position, wanted = self._position(), self._wanted
        first = (await self._consumer.beginning_offsets([self._partition]))[self._partition]
        if first <= position:
            if await self._is_cut(position):
                return True
            # It was out of range for a moment only, as after a change of the leader.
            _log.info("%s: out of range and back again: %s", self._partition, error)
            self._go_to(position)
            return False
        count = min(first, wanted.end) - position
        self._lose(first, count, "deleted by retention or by hand", position)
        self._go_to(min(first, wanted.end))
        return first >= wanted.end

    async def _is_cut(self, position: int) -> bool:
        """Whether the log ends before the range does, or belongs to another topic by now.

        Raises: DataLossError if so and that is not allowed; TopicGoneError.
        """
        try:
            topic = (await self._client.refresh(timeout_ms=_LOOK_MS)).topics.get(self._wanted.topic)
            if topic is None or self._wanted.partition not in topic.partitions:
                topic = await self._topic()
            if not self._has_id(topic):
                self._lose_topic()
                return True
            found = await self._consumer.end_offsets([self._partition], timeout_ms=_LOOK_MS)
        except RetriableError as error:
            _log.info("%s: the brokers do not respond: %s", self._partition, error)
            return False
        end = found[self._partition]
        if end >= self._wanted.end or end > position:
            return False
        self._lose(end, self._wanted.end - position, f"the log ends at {end} now", position)
        return True

    def _lose_topic(self) -> None:
        left = self._wanted.end - self._position_read
        self._lose(0, left, "the topic was deleted and made anew since", self._position_read)

    def _lose(self, first: int, count: int, reason: str, wanted: int) -> None:
        """Records are gone: fail or warn.

        Raises: DataLossError.
        """
        loss = Loss(
            partition=self._partition,
            wanted=wanted,
            first=first,
            count=count,
            reason=reason,
        )
        if self._settings.fails_on_data_loss:
            raise DataLossError(loss_text([loss], is_fatal=True))
        _log.warning("%s", loss_text([loss], is_fatal=False))

    def _stalled(self, position: int) -> StalledError:
        seconds = self._settings.stall_timeout_ms / 1000
        return StalledError(
            f"{self._wanted}: nothing has come from {self._settings.servers} at offset {position}"
            f" for {seconds:g} s (kafkaConsumer.pollTimeoutMs). Look whether the partition has a"
            " leader"
        )


async def _start_reader(key: SettingsKey) -> RangeReader:
    settings: dict[str, Any] = {
        "fetch_max_bytes": FETCH_BYTES,
        "max_partition_fetch_bytes": FETCH_BYTES,
        "prefetch_bytes_max": 2 * FETCH_BYTES,
        **dict(key),
        "auto_offset_reset": "none",
        "enable_auto_commit": False,
    }
    client = Client(ConsumerSettings.create(settings))
    consumer = Consumer(settings.pop("bootstrap_servers"), client=client, **settings)
    try:
        await consumer.start()
    except BaseException:
        await client.close()
        raise
    return RangeReader(client, consumer)


_readers: Final = KeptClients[RangeReader](_start_reader)

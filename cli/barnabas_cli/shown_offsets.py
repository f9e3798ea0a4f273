"""The offsets that `barnabas consume --group` commits: of records that were written and flushed.

A poll hands out more records than are shown when the output is closed in between, when enough
were shown, or when records come behind the end that was there at the start. What the group
remembers is what somebody could see: a record may be shown twice, but none is passed over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from barnabas_client.cluster.offsets import OffsetAndMetadata
from barnabas_client.consumer.rebalance_listener import RebalanceListener
from barnabas_protocol.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas_client.consumer.consumer import Consumer
    from barnabas_client.consumer.records import ConsumerRecord

# A pipe takes some records after its reader has gone: what is committed later than that is safe.
COMMIT_INTERVAL_SECONDS = 1.0
COMMIT_TIMEOUT_MS = 5_000


class ShownOffsets(RebalanceListener):
    """Which records of each partition were written, and which are committed."""

    def __init__(self) -> None:
        self.consumer: Consumer | None = None
        self._written: dict[TopicPartition, OffsetAndMetadata] = {}
        self._flushed: dict[TopicPartition, OffsetAndMetadata] = {}
        self._returned: set[TopicPartition] = set()
        self._next_commit_seconds = 0.0

    def returned(self, records: Iterable[ConsumerRecord]) -> None:
        """A poll has returned these records."""
        self._returned.update(TopicPartition(one.topic, one.partition) for one in records)

    def written(self, record: ConsumerRecord) -> None:
        """The record was written to the output, which may still buffer it."""
        partition = TopicPartition(record.topic, record.partition)
        self._written[partition] = OffsetAndMetadata(record.offset + 1, record.leader_epoch)

    def flushed(self) -> None:
        """The output was flushed."""
        self._flushed |= self._written
        self._written.clear()

    async def commit_if_due(self, now_seconds: float) -> None:
        """Commit once in a while."""
        if not self._flushed:
            self._next_commit_seconds = now_seconds + COMMIT_INTERVAL_SECONDS
        elif now_seconds >= self._next_commit_seconds:
            self._next_commit_seconds = now_seconds + COMMIT_INTERVAL_SECONDS
            await self.commit()

    async def commit(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Commit what was flushed, of some partitions or of all. Raises: as `Consumer.commit`."""
        wanted = {
            one: offset
            for one, offset in self._flushed.items()
            if partitions is None or one in partitions
        }
        for one in wanted:
            del self._flushed[one]
        if wanted and self.consumer is not None:
            await self.consumer.commit(wanted, timeout_ms=COMMIT_TIMEOUT_MS)

    async def commit_all(self) -> None:
        """Commit what was flushed, and the start of partitions without any record."""
        consumer = self.consumer
        if consumer is None:
            return
        for one in consumer.assignment() - self._returned:
            offset = await consumer.position(one, timeout_ms=COMMIT_TIMEOUT_MS)
            self._flushed.setdefault(one, OffsetAndMetadata(offset))
        await self.commit()

    async def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Commit before another member gets them."""
        await self.commit(partitions)

    async def on_lost(self, partitions: Collection[TopicPartition]) -> None:
        """Drop partitions that can no longer be committed."""
        for one in partitions:
            self._flushed.pop(one, None)

"""DeleteRecords at the leader: waits until every live replica has the new log starts.

Raising the leader's own log start comes before. Source: SEG-13, KIP-107.
Invariant: a request gets its results exactly once, with the low watermark of that moment.
"""

import asyncio
from collections.abc import Sequence

from barnabas_broker.purgatory.purgatory import DelayedOperation, Purgatory
from barnabas_broker.replication.partition import Partition
from barnabas_protocol.errors import ErrorCode, KafkaError


class DeleteRecordsResult:
    """The outcome for one partition whose log start was raised to `offset`."""

    __slots__ = ("error_code", "low_watermark", "offset", "partition")

    def __init__(self, partition: Partition, offset: int) -> None:
        self.partition = partition
        self.offset = offset
        self.error_code = ErrorCode.NONE
        self.low_watermark = -1

    def is_settled(self) -> bool:
        """Whether all live replicas have followed, or it can be seen that they will not."""
        if self.error_code != ErrorCode.NONE:
            return True
        try:
            self.partition.check_leader()
        except KafkaError as error:
            self.error_code = error.code
            return True
        self.low_watermark = self.partition.low_watermark()
        return self.low_watermark >= self.offset


class DelayedDeleteRecords(DelayedOperation):
    """A request that waits for the log starts of followers."""

    __slots__ = ("_deletions", "_done")

    def __init__(
        self, deletions: Sequence[DeleteRecordsResult], timeout_ms: int, done: asyncio.Future[None]
    ) -> None:
        super().__init__(timeout_ms)
        self._deletions = deletions
        self._done = done

    def try_complete(self) -> bool:
        """Complete if every deletion is settled."""
        # Each is looked at, as each notes its own outcome.
        settled = [deletion.is_settled() for deletion in self._deletions]
        return all(settled) and self.force_complete()

    def on_expire(self) -> None:
        """Fail what is not settled with REQUEST_TIMED_OUT."""
        for deletion in self._deletions:
            if not deletion.is_settled():
                deletion.error_code = ErrorCode.REQUEST_TIMED_OUT
                deletion.low_watermark = -1

    def on_complete(self) -> None:
        """Wake the request."""
        if not self._done.done():
            self._done.set_result(None)


async def wait_replicated(
    deletions: Sequence[DeleteRecordsResult], timeout_ms: int, purgatory: Purgatory
) -> None:
    """Return when each deletion is settled, or the time is up; each has its outcome then."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    delayed = DelayedDeleteRecords(deletions, max(timeout_ms, 0), done)
    purgatory.try_complete_else_watch(
        delayed, [deletion.partition.topic_partition for deletion in deletions]
    )
    try:
        await done
    finally:
        delayed.cancel()

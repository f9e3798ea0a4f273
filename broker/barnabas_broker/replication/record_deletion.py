"""One DeleteRecords request at work: waits until every live replica has the new log starts.

Raising the leader's own log start comes before. Source: SEG-13 of the behaviour list, KIP-107.
Invariant: the answer is given exactly once, with the low watermark of that moment.
"""

import asyncio
from collections.abc import Sequence

from barnabas_broker.purgatory.purgatory import DelayedOperation, Purgatory
from barnabas_broker.replication.partition import Partition
from barnabas_protocol.errors import ErrorCode, KafkaError


class Deletion:
    """A partition whose log start was raised: up to where, and what became of it."""

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


class _Waiting(DelayedOperation):
    __slots__ = ("_deletions", "_done")

    def __init__(
        self, deletions: Sequence[Deletion], timeout_ms: int, done: asyncio.Future[None]
    ) -> None:
        super().__init__(timeout_ms)
        self._deletions = deletions
        self._done = done

    def try_complete(self) -> bool:
        # Each is looked at, as each notes what is to be answered.
        settled = [deletion.is_settled() for deletion in self._deletions]
        return all(settled) and self.force_complete()

    def on_expire(self) -> None:
        for deletion in self._deletions:
            if not deletion.is_settled():
                deletion.error_code = ErrorCode.REQUEST_TIMED_OUT
                deletion.low_watermark = -1

    def on_complete(self) -> None:
        if not self._done.done():
            self._done.set_result(None)


async def replicated(deletions: Sequence[Deletion], timeout_ms: int, purgatory: Purgatory) -> None:
    """Return when each deletion is settled, or the time is up; each then says what it is."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiting = _Waiting(deletions, max(timeout_ms, 0), done)
    purgatory.try_complete_else_watch(
        waiting, [deletion.partition.topic_partition for deletion in deletions]
    )
    try:
        await done
    finally:
        waiting.cancel()

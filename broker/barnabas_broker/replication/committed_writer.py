"""Appends of coordinators: to a partition of this broker, returning when they are committed.

Source: OFS-5 and OFS-6. Not a client path: batches come from the broker itself and are not limited
to one. There is no time-out: a wait ends with the outcome, or with the leadership. How long a
client waits for its response is the coordinator's affair.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from barnabas_broker.env.clock import Clock
from barnabas_broker.log.partition_log import LogRead
from barnabas_broker.purgatory.purgatory import DelayedOperation
from barnabas_broker.replication.leader.delayed_produce import ACKS_ALL
from barnabas_broker.replication.partition import Partition
from barnabas_broker.replication.replica_manager import ReplicaManager
from barnabas_broker.replication.turn import Turn
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition

# The purgatory wants a time; the outcome of an append has none.
WAIT_MS_MAX = 2**31 - 1
# Of a batch, its header and the fields of its records that the caller's estimate may miss.
BATCH_OVERHEAD_BYTES = 512


class DelayedCommit(DelayedOperation):
    """An append of a coordinator that waits for the high watermark."""

    __slots__ = ("_end_offset", "_future", "_partition")

    def __init__(self, partition: Partition, end_offset: int, future: asyncio.Future[int]) -> None:
        super().__init__(WAIT_MS_MAX)
        self._partition = partition
        self._end_offset = end_offset
        self._future = future
        future.add_done_callback(self._done)

    def _done(self, _: asyncio.Future[int]) -> None:
        """End the wait: there is an outcome, or nobody awaits it."""
        self.cancel()

    def try_complete(self) -> bool:
        """Complete if the outcome is final."""
        return _settle(self._partition, self._end_offset, self._future) and self.force_complete()

    def on_complete(self) -> None:
        """Fail what is not settled: the broker stops."""
        if not _settle(self._partition, self._end_offset, self._future):
            self._future.set_exception(KafkaError(ErrorCode.REQUEST_TIMED_OUT))


def _settle(partition: Partition, end_offset: int, future: asyncio.Future[int]) -> bool:
    """Whether the outcome of an append is final; the future has it then."""
    if future.done():
        return True
    if partition.log.is_offline or not partition.is_leader:
        # This or another leader may commit the records all the same.
        future.set_exception(KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND))
    elif partition.is_acknowledged(end_offset, ACKS_ALL):
        future.set_result(end_offset - 1)
    return future.done()


class CommittedWriter:
    """Appends that return once they are committed."""

    def __init__(self, replicas: ReplicaManager, turn: Turn, clock: Clock) -> None:
        self._replicas = replicas
        self._turn = turn
        self._clock = clock

    async def append(
        self,
        topic_partition: TopicPartition,
        batch: bytes,
        appended: Callable[[], None] | None = None,
    ) -> int:
        """Append batches; returns the last offset once the high watermark has passed it.

        `appended` is called at once when they are staged. Raises: KafkaError; 20 if the leadership
        or the disk is lost before the outcome is known, else nothing was appended.
        """
        partition = self._replicas.find(topic_partition)
        info = partition.append(
            memoryview(bytearray(batch)), ACKS_ALL, self._clock.wall_ms(), internal=True
        )
        if appended is not None:
            appended()
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._turn.after(partial(self._watch, partition, info.last_offset + 1, future))
        return await future

    async def wait_committed(self, topic_partition: TopicPartition, end_offset: int) -> None:
        """Return once the high watermark has reached an offset, however long that takes.

        Raises: KafkaError if this broker does not lead the partition, or ceases to.
        """
        partition = self._replicas.find(topic_partition)
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._watch(partition, end_offset, future)
        await future

    async def delete_records(self, topic_partition: TopicPartition, offset: int) -> None:
        """Raise the log start of a partition that is led here; it may be there already.

        Raises: KafkaError.
        """
        partition = self._replicas.find(topic_partition)
        partition.check_leader()
        if offset > partition.log.log_start_offset:
            await partition.log.delete_records(offset)
            partition.start_offset_moved()

    def _watch(self, partition: Partition, end_offset: int, future: asyncio.Future[int]) -> None:
        """Let an append wait, unless its outcome is final already."""
        if not _settle(partition, end_offset, future):
            commit = DelayedCommit(partition, end_offset, future)
            self._replicas.produce_purgatory.watch(commit, [partition.topic_partition])

    def batch_bytes_max(self, topic_partition: TopicPartition) -> int:
        """Return how large one batch may be: `max.message.bytes` of the topic."""
        config = self._replicas.find(topic_partition).log.config
        return max(config.max_message_bytes - BATCH_OVERHEAD_BYTES, BATCH_OVERHEAD_BYTES)

    async def read(self, topic_partition: TopicPartition, offset: int, max_bytes: int) -> LogRead:
        """Read up to the log end, committed or not: a new coordinator loads all of it."""
        log = self._replicas.find(topic_partition).log
        return await log.read(offset, max_bytes, log.log_end_offset)

    def start_offset(self, topic_partition: TopicPartition) -> int:
        """The log start offset."""
        return self._replicas.find(topic_partition).log.log_start_offset

    def end_offset(self, topic_partition: TopicPartition) -> int:
        """The log end offset."""
        return self._replicas.find(topic_partition).log.log_end_offset

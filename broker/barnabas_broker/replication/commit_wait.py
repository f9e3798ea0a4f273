"""What a coordinator writes with.

Append to a partition of this broker, and wait until it is committed.

Source: OFS-5 and OFS-6 of the behaviour list. Not a client path: batches come from the broker
itself and are not limited to one. How long somebody waits for a reply is the coordinator's affair:
a wait here ends with the outcome, or with the leadership.
"""

import asyncio

from barnabas_broker.env.clock import Clock
from barnabas_broker.log.partition_log import LogRead
from barnabas_broker.network.turn import Turn
from barnabas_broker.purgatory.purgatory import DelayedOperation
from barnabas_broker.replication.partition import Partition
from barnabas_broker.replication.producing import ACKS_ALL
from barnabas_broker.replication.replica_manager import ReplicaManager
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition

# The purgatory wants a time; the outcome of an append has none.
WAIT_MS_MAX = 2**31 - 1
# Of a batch, its header and the fields of its records that the caller's estimate may miss.
BATCH_OVERHEAD_BYTES = 512


class _Commit(DelayedOperation):
    __slots__ = ("_end_offset", "_future", "_partition")

    def __init__(self, partition: Partition, end_offset: int, future: asyncio.Future[int]) -> None:
        super().__init__(WAIT_MS_MAX)
        self._partition = partition
        self._end_offset = end_offset
        self._future = future

    def _is_over(self) -> bool:
        """Whether this replica will not hear of a commit."""
        return self._partition.log.is_offline or not self._partition.is_leader

    def try_complete(self) -> bool:
        if self._is_over() or self._partition.is_acknowledged(self._end_offset, ACKS_ALL):
            return self.force_complete()
        return False

    def on_complete(self) -> None:
        if self._future.done():
            return
        if self._is_over():
            # This or another leader may commit the records all the same.
            error = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
            self._future.set_exception(error)
        elif self._partition.is_acknowledged(self._end_offset, ACKS_ALL):
            self._future.set_result(self._end_offset - 1)
        else:
            self._future.set_exception(KafkaError(ErrorCode.REQUEST_TIMED_OUT))

    def on_expire(self) -> None:
        """Nothing of its own: completion tells a time-out by what is not committed."""


class CommittedWriter:
    """Appends that return once they are committed."""

    def __init__(self, replicas: ReplicaManager, turn: Turn, clock: Clock) -> None:
        self._replicas = replicas
        self._turn = turn
        self._clock = clock

    async def append(self, topic_partition: TopicPartition, batch: bytes) -> int:
        """Append batches; returns the last offset once the high watermark has passed it.

        Raises: KafkaError; 20 if the leadership or the disk is lost before the outcome is known,
        else nothing was appended.
        """
        partition = self._replicas.find(topic_partition)
        info = partition.append(
            memoryview(bytearray(batch)), ACKS_ALL, self._clock.wall_ms(), internal=True
        )
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        commit = _Commit(partition, info.last_offset + 1, future)
        purgatory = self._replicas.produce_purgatory

        def written() -> None:
            purgatory.try_complete_else_watch(commit, [topic_partition])

        self._turn.after(written)
        try:
            return await future
        finally:
            commit.cancel()

    async def wait_committed(self, topic_partition: TopicPartition, end_offset: int) -> None:
        """Return once the high watermark has reached an offset, however long that takes.

        Raises: KafkaError if this broker does not lead the partition, or ceases to.
        """
        partition = self._replicas.find(topic_partition)
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        commit = _Commit(partition, end_offset, future)
        self._replicas.produce_purgatory.try_complete_else_watch(commit, [topic_partition])
        try:
            await future
        finally:
            commit.cancel()

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

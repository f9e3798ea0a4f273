"""Appends of coordinators: to a partition of this broker, returning when they are committed.

Source: OFS-5 and OFS-6. Not a client path: batches come from the broker itself and are not limited
to one. A wait ends with the outcome, or with the leadership; only `outcomes` has a time-out. How
long a client waits for its response is the coordinator's affair.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from barnabas_broker.env.clock import Clock
from barnabas_broker.log.partition_log import LogRead
from barnabas_broker.purgatory.purgatory import DelayedOperation
from barnabas_broker.replication.leader.delayed_produce import ACKS_ALL
from barnabas_broker.replication.partition import Partition
from barnabas_broker.replication.replica_manager import ReplicaManager
from barnabas_broker.replication.turn import Turn
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition

# The purgatory wants a time; where nobody gives one, the outcome of an append has none.
WAIT_MS_MAX = 2**31 - 1
# Of a batch, its header and the fields of its records that the caller's estimate may miss.
BATCH_OVERHEAD_BYTES = 512


class StagedAppend(NamedTuple):
    """An append whose outcome is not known yet."""

    partition: Partition
    end_offset: int
    # Of the partition, when it was appended.
    interruption_count: int


# For each append None once it is committed, else why it may not be.
Outcomes = list[KafkaError | None]


class DelayedCommits(DelayedOperation):
    """Appends of a coordinator that wait together for the high watermarks of their partitions."""

    __slots__ = ("_future", "_outcomes", "_staged", "_unsettled")

    def __init__(
        self,
        staged: Sequence[StagedAppend],
        wait_ms_max: int,
        future: asyncio.Future[Outcomes],
    ) -> None:
        super().__init__(wait_ms_max)
        self._staged = staged
        self._future = future
        self._outcomes: Outcomes = [None] * len(staged)
        self._unsettled = list(range(len(staged)))

    def try_complete(self) -> bool:
        """Complete if every outcome is final.

        Stops at the first that is not: it is called whenever one of them has moved.
        """
        unsettled = self._unsettled
        while unsettled:
            index = unsettled[-1]
            try:
                if not _is_committed(*self._staged[index]):
                    return False
            except KafkaError as error:
                self._outcomes[index] = error
            unsettled.pop()
        return self.force_complete()

    def on_expire(self) -> None:
        """Fail what is not settled: its records may be committed later."""
        for index in self._unsettled:
            try:
                if not _is_committed(*self._staged[index]):
                    self._outcomes[index] = KafkaError(ErrorCode.REQUEST_TIMED_OUT)
            except KafkaError as error:
                self._outcomes[index] = error

    def on_complete(self) -> None:
        """Hand over the outcomes, if somebody still awaits them."""
        if not self._future.done():
            self._future.set_result(self._outcomes)


def _is_committed(partition: Partition, end_offset: int, interruption_count: int) -> bool:
    """Whether an append is committed.

    Raises: KafkaError 20 if this or another leader may commit it, and nobody here will know.
    """
    if (
        partition.log.is_offline
        or not partition.is_leader
        or partition.interruption_count != interruption_count
    ):
        raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    return partition.is_acknowledged(end_offset, ACKS_ALL)


async def _only(outcomes: asyncio.Future[Outcomes]) -> None:
    """Return when the one append is committed. Raises: KafkaError, if it may not be."""
    (refusal,) = await outcomes
    if refusal is not None:
        raise refusal


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
        staged = self.stage(topic_partition, batch)
        await _only(self.outcomes([staged], WAIT_MS_MAX))
        return staged.end_offset - 1

    def stage(self, topic_partition: TopicPartition, batch: bytes) -> StagedAppend:
        """Append batches; `outcomes` tells what becomes of them. Raises: KafkaError."""
        partition = self._replicas.find(topic_partition)
        info = partition.append(
            memoryview(bytearray(batch)), ACKS_ALL, self._clock.wall_ms(), internal=True
        )
        return StagedAppend(partition, info.last_offset + 1, partition.interruption_count)

    def outcomes(
        self, staged: Sequence[StagedAppend], wait_ms_max: int
    ) -> asyncio.Future[Outcomes]:
        """Return what has become of appends of this turn, once that is known of all.

        Code 20 if the leadership or the disk was lost before; 7 if it took too long.
        """
        future: asyncio.Future[Outcomes] = asyncio.get_running_loop().create_future()
        self._turn.after(partial(self._watch, staged, wait_ms_max, future))
        return future

    async def wait_committed(self, topic_partition: TopicPartition, end_offset: int) -> None:
        """Return once the high watermark has reached an offset, however long that takes.

        Raises: KafkaError if this broker does not lead the partition, or ceases to.
        """
        partition = self._replicas.find(topic_partition)
        staged = StagedAppend(partition, end_offset, partition.interruption_count)
        future: asyncio.Future[Outcomes] = asyncio.get_running_loop().create_future()
        self._watch([staged], WAIT_MS_MAX, future)
        await _only(future)

    async def delete_records(self, topic_partition: TopicPartition, offset: int) -> None:
        """Raise the log start of a partition that is led here; it may be there already.

        Raises: KafkaError.
        """
        partition = self._replicas.find(topic_partition)
        partition.check_leader()
        if offset > partition.log.log_start_offset:
            await partition.log.delete_records(offset)
            partition.start_offset_moved()

    def _watch(
        self, staged: Sequence[StagedAppend], wait_ms_max: int, future: asyncio.Future[Outcomes]
    ) -> None:
        """Let appends wait, unless all of their outcomes are final already."""
        commits = DelayedCommits(staged, wait_ms_max, future)
        if not commits.try_complete():
            keys = [append.partition.topic_partition for append in staged]
            self._replicas.produce_purgatory.watch(commits, keys)
            future.add_done_callback(lambda _: commits.cancel())

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

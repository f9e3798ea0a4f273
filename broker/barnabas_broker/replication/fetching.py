"""One Fetch request at work: reads its partitions, and waits for more where there is too little.

Not the wire format and not sessions. Source: REQ-5 to REQ-8 of the behaviour list, KIP-74 (the
first batch always comes whole).
Invariant: the answer is given exactly once, from one reading of the logs made at that moment.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from barnabas_broker.env.disk import Buffer
from barnabas_broker.log.partition_log import PartitionLog
from barnabas_broker.network.heavy_work import SLICE, Pause
from barnabas_broker.purgatory.purgatory import DelayedOperation
from barnabas_broker.replication.fetch_session import FetchPartition
from barnabas_broker.replication.partition import Partition
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition

logger = logging.getLogger(__name__)

_UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
FindPartition = Callable[[FetchPartition], Partition]
Spawn = Callable[[Coroutine[Any, Any, None]], None]
# The broker that a consumer had better read a partition from; -1: this one.
ChooseReplica = Callable[[Partition, FetchPartition], int]
NO_REPLICA = -1


class FetchParameters:
    """What holds for the whole request. Times in ms, sizes in bytes.

    A follower reads up to the log end, others what is committed; from the leader only, or not.
    """

    __slots__ = (
        "choose_replica",
        "is_follower",
        "is_gone",
        "leader_only",
        "max_bytes",
        "max_wait_ms",
        "min_bytes",
        "read_committed",
        "reads",
    )

    def __init__(
        self,
        *,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        read_committed: bool,
        is_follower: bool,
        leader_only: bool = True,
        choose_replica: ChooseReplica | None = None,
        reads: asyncio.Semaphore | None = None,
        is_gone: Callable[[], bool] = lambda: False,
    ) -> None:
        """Make some.

        `reads` bounds what clients read in threads; followers wait for no client. `is_gone`:
        whether there is still somebody to answer.
        """
        self.leader_only = leader_only
        self.choose_replica = choose_replica
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.read_committed = read_committed
        self.is_follower = is_follower
        self.reads = reads
        self.is_gone = is_gone


class PartitionData:
    """What was read of one partition. Offsets are exclusive ends; -1 is unknown."""

    __slots__ = (
        "aborted",
        "buffers",
        "diverging",
        "error",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "preferred_replica",
        "request",
        "size_bytes",
    )

    def __init__(self, request: FetchPartition, error: ErrorCode = ErrorCode.NONE) -> None:
        self.request = request
        self.error = error
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.aborted: list[tuple[int, int]] | None = None
        self.buffers: list[Buffer] = []
        # Epoch and end offset of our log where the reader's last epoch ends otherwise (REP-16).
        self.diverging: tuple[int, int] | None = None
        self.preferred_replica = NO_REPLICA
        self.size_bytes = 0


class Fetching(DelayedOperation):
    """A fetch between its first look at the logs and its answer."""

    __slots__ = ("_done", "_find", "_parameters", "_partitions", "_spawn")

    def __init__(
        self,
        partitions: Sequence[FetchPartition],
        parameters: FetchParameters,
        find: FindPartition,
        spawn: Spawn,
        done: Callable[[list[PartitionData]], None],
    ) -> None:
        super().__init__(parameters.max_wait_ms)
        self._partitions = partitions
        self._parameters = parameters
        self._find = find
        self._spawn = spawn
        self._done = done

    @property
    def keys(self) -> list[TopicPartition]:
        """The partitions whose progress may complete it."""
        return [partition.topic_partition for partition in self._partitions]

    def is_satisfied(self) -> bool:
        """Whether it must be answered now: enough bytes, an error, or no wish to wait (REQ-5)."""
        parameters = self._parameters
        if parameters.max_wait_ms <= 0 or parameters.min_bytes <= 0 or not self._partitions:
            return True
        readable = 0
        choose = parameters.choose_replica
        # As nearly all consumers ask: then nobody has to look up how much there is.
        is_any_enough = parameters.min_bytes == 1
        for request in self._partitions:
            try:
                partition = self._find(request)
                log = partition.log
                limit = partition.limit_offset(
                    is_follower=parameters.is_follower, read_committed=parameters.read_committed
                )
                offset = request.fetch_offset
                if request.last_fetched_epoch >= 0 and diverging(request, log) is not None:
                    return True
                if choose is not None and choose(partition, request) != NO_REPLICA:
                    return True
                if offset < limit:
                    if offset < log.log_start_offset:
                        return True
                    if is_any_enough and request.max_bytes > 0:
                        return True
                    readable += min(log.size_between(offset, limit), request.max_bytes)
                elif offset > log.log_end_offset:
                    return True
            except KafkaError:
                return True
            if readable >= parameters.min_bytes:
                return True
        return False

    def try_complete(self) -> bool:
        """Complete if it must be answered now."""
        return self.is_satisfied() and self.force_complete()

    def on_complete(self) -> None:
        """Read and answer; what is not in memory is read by the disk's threads first."""
        results: list[PartitionData] = []
        left = self._parameters.max_bytes
        for index, request in enumerate(self._partitions):
            data = self._read_nowait(request, left, is_first=left == self._parameters.max_bytes)
            if data is None:
                self._spawn(self._finish_cold(results, index, left))
                return
            left -= data.size_bytes
            results.append(data)
        self._done(results)

    def on_expire(self) -> None:
        """Nothing of its own: an expired fetch is answered with what there is."""

    def is_enough(self, results: Sequence[PartitionData]) -> bool:
        """Whether what was read may be answered before the time is over (REQ-5)."""
        return sum(data.size_bytes for data in results) >= self._parameters.min_bytes or any(
            data.error or data.diverging is not None or data.preferred_replica != NO_REPLICA
            for data in results
        )

    async def read_in_slices(self, pause: Pause) -> list[PartitionData]:
        """Read very many partitions; the loop goes on meanwhile."""
        results: list[PartitionData] = []
        left = self._parameters.max_bytes
        for index, request in enumerate(self._partitions):
            if index % SLICE == 0:
                await pause()
                if self._parameters.is_gone():
                    break
            is_first = left == self._parameters.max_bytes
            data = self._read_nowait(request, left, is_first=is_first)
            if data is None:
                data = await self._read_cold(request, left, is_first=is_first)
            left -= data.size_bytes
            results.append(data)
        return results

    async def _finish_cold(self, results: list[PartitionData], start: int, left: int) -> None:
        for request in self._partitions[start:]:
            is_first = left == self._parameters.max_bytes
            data = self._read_nowait(request, left, is_first=is_first)
            if data is None:
                data = await self._read_cold(request, left, is_first=is_first)
            left -= data.size_bytes
            results.append(data)
        self._done(results)

    def _start(self, request: FetchPartition) -> tuple[PartitionData, Partition, int]:
        partition = self._find(request)
        log = partition.log
        data = PartitionData(request)
        data.high_watermark = log.high_watermark
        data.last_stable_offset = log.last_stable_offset
        data.log_start_offset = log.log_start_offset
        parameters = self._parameters
        limit = partition.limit_offset(
            is_follower=parameters.is_follower, read_committed=parameters.read_committed
        )
        offset = request.fetch_offset
        if request.last_fetched_epoch >= 0:
            data.diverging = diverging(request, log)
            if data.diverging is not None:
                return data, partition, 0
        if offset < log.log_start_offset or offset > log.log_end_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if parameters.choose_replica is not None:
            data.preferred_replica = parameters.choose_replica(partition, request)
            if data.preferred_replica != NO_REPLICA:
                return data, partition, 0
        return data, partition, limit

    def _read_nowait(
        self, request: FetchPartition, left: int, *, is_first: bool
    ) -> PartitionData | None:
        """Read one partition from memory; None where the device would have to be waited for."""
        try:
            data, partition, limit = self._start(request)
            if request.fetch_offset >= limit or (left <= 0 and not is_first):
                return self._finish(data, partition, limit)
            read = partition.log.read_nowait(
                request.fetch_offset, min(left, request.max_bytes), limit, at_least_one=is_first
            )
            if read is None:
                return None
            data.buffers, data.size_bytes = read.buffers, read.size_bytes
            return self._finish(data, partition, limit)
        except Exception as error:
            return self._failed(request, error)

    async def _read_cold(
        self, request: FetchPartition, left: int, *, is_first: bool
    ) -> PartitionData:
        reads = self._parameters.reads
        if reads is None:
            return await self._read_apart(request, left, is_first=is_first)
        async with reads:
            if self._parameters.is_gone():
                return PartitionData(request)
            return await self._read_apart(request, left, is_first=is_first)

    async def _read_apart(
        self, request: FetchPartition, left: int, *, is_first: bool
    ) -> PartitionData:
        try:
            data, partition, limit = self._start(request)
            read = await partition.log.read(
                request.fetch_offset, min(left, request.max_bytes), limit, at_least_one=is_first
            )
            data.buffers, data.size_bytes = read.buffers, read.size_bytes
            return self._finish(data, partition, limit)
        except Exception as error:
            return self._failed(request, error)

    def _finish(self, data: PartitionData, partition: Partition, limit: int) -> PartitionData:
        if self._parameters.read_committed:
            data.aborted = partition.log.aborted_transactions(data.request.fetch_offset, limit)
        if self._parameters.is_follower:
            partition.bytes_to_followers += data.size_bytes
        else:
            partition.bytes_out += data.size_bytes
        return data

    @staticmethod
    def _failed(request: FetchPartition, error: Exception) -> PartitionData:
        """The answer for a partition that cannot be read: whatever the fault, there is one."""
        if isinstance(error, KafkaError):
            data = PartitionData(request, error.code)
            if error.code in _UNKNOWN:
                data.aborted = []  # as Kafka writes it where it never came to a log
            return data
        logger.error("a fetch from %s-%d failed", *request.topic_partition, exc_info=error)
        return PartitionData(request, ErrorCode.UNKNOWN_SERVER_ERROR)


def diverging(request: FetchPartition, log: PartitionLog) -> tuple[int, int] | None:
    """Epoch and end offset where the reader's last epoch ends in our log, if before its offset.

    Raises: KafkaError 1 if we do not know that epoch (REP-16).
    """
    asked = request.last_fetched_epoch
    if asked < 0 or (
        asked == log.leader_epochs.latest and request.fetch_offset <= log.log_end_offset
    ):
        return None
    epoch, end_offset = log.leader_epochs.end_offset_for(asked, log.log_end_offset)
    if epoch < 0 or end_offset < 0:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    return (epoch, end_offset) if epoch < asked or end_offset < request.fetch_offset else None

"""Fetch requests of clients: read the partitions, and wait for more where there is too little.

`ClientFetches` serves them, `DelayedFetch` is one that waits, `PartitionReader` reads one partition
(also for `delayed_follower_fetch.py`). Not the wire format and not sessions.

Source: REQ-5 to REQ-8, KIP-74 (the first batch always comes whole), KIP-392 (replica in the rack).
Invariants: a request gets its results exactly once, from one reading of the logs made at that
moment; a follower that is chosen for a consumer is in the ISR and has the offset that is requested;
where the leader is as near, it is the leader.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from barnabas_broker.env.disk import Buffer
from barnabas_broker.log.partition_log import PartitionLog
from barnabas_broker.metadata.image import BrokerImage
from barnabas_broker.network.heavy_work import SLICE, Pause
from barnabas_broker.purgatory.purgatory import DelayedOperation, Purgatory
from barnabas_broker.replication.leader.fetch_session import FetchPartition
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
        is_gone: Callable[[], bool] = lambda: False,
    ) -> None:
        """`is_gone`: whether there is still somebody to respond to."""
        self.leader_only = leader_only
        self.choose_replica = choose_replica
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.read_committed = read_committed
        self.is_follower = is_follower
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


Done = Callable[[list[PartitionData]], None]


class PartitionReader:
    """Reads partitions for one fetch, one at a time.

    `left` is how many bytes of the whole request may still be read; `is_first`: nothing was read
    before, so that the first batch comes whole.
    """

    __slots__ = ("_find", "_parameters", "_reads")

    def __init__(
        self,
        parameters: FetchParameters,
        find: FindPartition,
        reads: asyncio.Semaphore | None = None,
    ) -> None:
        """`reads` bounds what clients read in threads; followers wait for no client."""
        self._parameters = parameters
        self._find = find
        self._reads = reads

    def read_nowait(
        self, request: FetchPartition, left: int, *, is_first: bool
    ) -> PartitionData | None:
        """Read one partition from memory; None where the device would have to be waited for."""
        try:
            data, partition, limit = self._start(request)
            if request.fetch_offset >= limit or (left <= 0 and not is_first):
                data.aborted = [] if self._parameters.read_committed else None
                return self._counted(data, partition)
            read = partition.log.read_nowait(
                request.fetch_offset, min(left, request.max_bytes), limit, at_least_one=is_first
            )
            if read is None:
                return None
            if self._parameters.read_committed:
                read, data.aborted = partition.log.reads.with_aborted(read, request.fetch_offset)
            data.buffers, data.size_bytes = read.buffers, read.size_bytes
            return self._counted(data, partition)
        except Exception as error:
            return _failed(request, error)

    async def read(self, request: FetchPartition, left: int, *, is_first: bool) -> PartitionData:
        """Read one partition, in a thread where it is not in memory."""
        data = self.read_nowait(request, left, is_first=is_first)
        return data or await self.read_cold(request, left, is_first=is_first)

    async def read_cold(
        self, request: FetchPartition, left: int, *, is_first: bool
    ) -> PartitionData:
        """Read one partition in a thread."""
        if self._reads is None:
            return await self._read_apart(request, left, is_first=is_first)
        async with self._reads:
            if self._parameters.is_gone():
                return PartitionData(request)
            return await self._read_apart(request, left, is_first=is_first)

    async def _read_apart(
        self, request: FetchPartition, left: int, *, is_first: bool
    ) -> PartitionData:
        try:
            data, partition, limit = self._start(request)
            log, offset, max_bytes = (
                partition.log,
                request.fetch_offset,
                min(left, request.max_bytes),
            )
            if self._parameters.read_committed:
                # What is looked up afterwards may be gone with segments that were read.
                read, data.aborted = await log.read_with_aborted(
                    offset, max_bytes, limit, at_least_one=is_first
                )
            else:
                read = await log.read(offset, max_bytes, limit, at_least_one=is_first)
            data.buffers, data.size_bytes = read.buffers, read.size_bytes
            return self._counted(data, partition)
        except Exception as error:
            return _failed(request, error)

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

    def _counted(self, data: PartitionData, partition: Partition) -> PartitionData:
        if self._parameters.is_follower:
            partition.bytes_to_followers += data.size_bytes
        else:
            partition.bytes_out += data.size_bytes
        return data


def _failed(request: FetchPartition, error: Exception) -> PartitionData:
    """The result for a partition that cannot be read: whatever the fault, there is one."""
    if isinstance(error, KafkaError):
        data = PartitionData(request, error.code)
        if error.code in _UNKNOWN:
            data.aborted = []  # as Kafka writes it where it never came to a log
        return data
    logger.error("a fetch from %s-%d failed", *request.topic_partition, exc_info=error)
    return PartitionData(request, ErrorCode.UNKNOWN_SERVER_ERROR)


class DelayedFetch(DelayedOperation):
    """A fetch between its first look at the logs and its results."""

    __slots__ = ("_done", "_find", "_parameters", "_partitions", "_reader", "_spawn")

    def __init__(
        self,
        partitions: Sequence[FetchPartition],
        parameters: FetchParameters,
        find: FindPartition,
        reads: asyncio.Semaphore,
        spawn: Spawn,
        done: Done,
    ) -> None:
        super().__init__(parameters.max_wait_ms)
        self._partitions = partitions
        self._parameters = parameters
        self._find = find
        self._reader = PartitionReader(parameters, find, reads)
        self._spawn = spawn
        self._done = done

    @property
    def keys(self) -> list[TopicPartition]:
        """The partitions whose progress may complete it."""
        return [partition.topic_partition for partition in self._partitions]

    def is_satisfied(self) -> bool:
        """Whether it completes now: enough bytes, an error, or no time to wait (REQ-5)."""
        parameters = self._parameters
        if parameters.max_wait_ms <= 0 or parameters.min_bytes <= 0 or not self._partitions:
            return True
        readable = 0
        choose = parameters.choose_replica
        # As nearly all consumers fetch: then nobody has to look up how much there is.
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

    def complete_now(self) -> bool:
        """Complete without ever having waited, if it is satisfied."""
        if not self.is_satisfied():
            return False
        self.is_completed = True
        self.on_complete()
        return True

    def try_complete(self) -> bool:
        """Complete if it is satisfied."""
        return self.is_satisfied() and self.force_complete()

    def on_complete(self) -> None:
        """Read; what is not in memory is read by the disk's threads first."""
        results: list[PartitionData] = []
        left = max_bytes = self._parameters.max_bytes
        read_nowait = self._reader.read_nowait
        for index, request in enumerate(self._partitions):
            data = read_nowait(request, left, is_first=left == max_bytes)
            if data is None:
                self._spawn(self._read_rest(results, index, left))
                return
            left -= data.size_bytes
            results.append(data)
        self._done(results)

    def on_expire(self) -> None:
        """Nothing of its own: an expired fetch gets what there is."""

    def _is_all(self, left: int) -> bool:
        """Whether nothing was read yet."""
        return left == self._parameters.max_bytes

    async def _read_rest(self, results: list[PartitionData], start: int, left: int) -> None:
        for request in self._partitions[start:]:
            data = await self._reader.read(request, left, is_first=self._is_all(left))
            left -= data.size_bytes
            results.append(data)
        self._done(results)

    # Very many partitions.

    async def read_in_slices(self, pause: Pause) -> list[PartitionData]:
        """Read very many partitions; the loop goes on meanwhile.

        Fewer results where there is nobody left to respond to.
        """
        results: list[PartitionData] = []
        left = self._parameters.max_bytes
        for index, request in enumerate(self._partitions):
            if index % SLICE == 0:
                await pause()
                if self._parameters.is_gone():
                    break
            data = await self._reader.read(request, left, is_first=self._is_all(left))
            left -= data.size_bytes
            results.append(data)
        return results

    def is_enough(self, results: Sequence[PartitionData]) -> bool:
        """Whether what was read is enough before the time is over (REQ-5)."""
        return sum(data.size_bytes for data in results) >= self._parameters.min_bytes or any(
            data.error or data.diverging is not None or data.preferred_replica != NO_REPLICA
            for data in results
        )


class Movement(DelayedOperation):
    """Waits until something has happened to one of many partitions, whatever it is."""

    def __init__(self, timeout_ms: int) -> None:
        super().__init__(timeout_ms)
        self.has_moved = asyncio.Event()

    def try_complete(self) -> bool:
        """It is tried when a partition has moved, and at no other time."""
        return self.force_complete()

    def on_complete(self) -> None:
        """Wake who waits."""
        self.has_moved.set()

    def on_expire(self) -> None:
        """Nothing of its own: an expired fetch gets what there is."""


class ClientFetches:
    """Serves the fetch requests of clients."""

    def __init__(
        self,
        *,
        find_leader: FindPartition,
        find_replica: FindPartition,
        purgatory: Purgatory,
        reads: asyncio.Semaphore,
        spawn: Spawn,
    ) -> None:
        """`reads` bounds what clients read in threads."""
        self._find_leader = find_leader
        self._find_replica = find_replica
        self._purgatory = purgatory
        self._reads = reads
        self._spawn = spawn

    def fetch(
        self, partitions: Sequence[FetchPartition], parameters: FetchParameters, done: Done
    ) -> DelayedFetch:
        """Read partitions, at once or when there is enough.

        `done` gets one result per partition, in order.
        """
        delayed = self._delayed(partitions, parameters, done)
        if not delayed.complete_now():
            self._purgatory.watch(delayed, delayed.keys)
        return delayed

    async def fetch_many(
        self, partitions: Sequence[FetchPartition], parameters: FetchParameters, pause: Pause
    ) -> list[PartitionData]:
        """The same for so many partitions that the loop must go on while they are read.

        `fetch` looks at all of its partitions in one turn of the loop, and again whenever one of
        them moves. Here all is read again after the first movement, even if that is less than the
        client would wait for. Fewer results where there is nobody left to respond to.
        """
        delayed = self._delayed(partitions, parameters, lambda _: None)
        if parameters.max_wait_ms <= 0:
            return await delayed.read_in_slices(pause)
        movement = Movement(parameters.max_wait_ms)
        # Watched before they are read, or what moves in between would not be noticed.
        self._purgatory.watch(movement, delayed.keys)
        try:
            results = await delayed.read_in_slices(pause)
            if delayed.is_enough(results):
                return results
            await movement.has_moved.wait()
        finally:
            movement.cancel()
        return await delayed.read_in_slices(pause)

    def _delayed(
        self, partitions: Sequence[FetchPartition], parameters: FetchParameters, done: Done
    ) -> DelayedFetch:
        find = self._find_leader if parameters.leader_only else self._find_replica
        return DelayedFetch(partitions, parameters, find, self._reads, self._spawn, done)


def diverging(request: FetchPartition, log: PartitionLog) -> tuple[int, int] | None:
    """Epoch and end offset where the reader's last epoch ends in our log, if before its offset.

    Raises: KafkaError 1 if we do not know that epoch (REP-16).
    """
    last_epoch = request.last_fetched_epoch
    if last_epoch < 0 or (
        last_epoch == log.leader_epochs.latest and request.fetch_offset <= log.log_end_offset
    ):
        return None
    epoch, end_offset = log.leader_epochs.end_offset_for(last_epoch, log.log_end_offset)
    if epoch < 0 or end_offset < 0:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    is_diverging = epoch < last_epoch or end_offset < request.fetch_offset
    return (epoch, end_offset) if is_diverging else None


def replica_in_rack(
    partition: Partition,
    request: FetchPartition,
    rack: str,
    brokers: Mapping[int, BrokerImage],
) -> int:
    """The node of the follower in the rack that is farthest, -1 for the leader itself (KIP-392)."""
    if not partition.is_leader or _rack_of(brokers, partition.image.leader) == rack:
        return NO_REPLICA
    chosen, end_offset = NO_REPLICA, -1
    for state in partition.followers:
        if (
            state.node_id in partition.image.isr
            and _rack_of(brokers, state.node_id) == rack
            and state.log_start_offset <= request.fetch_offset <= state.log_end_offset
            and state.log_end_offset > end_offset
        ):
            chosen, end_offset = state.node_id, state.log_end_offset
    return chosen


def _rack_of(brokers: Mapping[int, BrokerImage], node_id: int) -> str | None:
    """The rack of a live broker."""
    broker = brokers.get(node_id)
    return None if broker is None or broker.fenced else broker.rack

"""One share fetch: waits until there is something to acquire, reads, and acquires.

From the moment it has found something it locks these share partitions against other fetches, and
reads them one after the other with the loop going on between. Not here: sessions, acknowledgements
and the wire format.

Source: KIP-932; SHR-8, SHR-10, SHR-13, SHR-14; REQ-5. Invariants: it gets its results exactly once;
what it acquires is in its results; who has gone acquires nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from barnabas_broker.env.disk import Buffer
from barnabas_broker.log.tail_cache import LogRead
from barnabas_broker.network.heavy_work import Pause
from barnabas_broker.purgatory.purgatory import DelayedOperation
from barnabas_broker.share.acquisition import AcquiredRecords, AcquireParameters
from barnabas_broker.share.fetched_records import FetchedRecords
from barnabas_broker.share.loaded_share_partition import LoadedSharePartition
from barnabas_broker.share.share_session import SessionPartition
from barnabas_protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)

BATCHES_MAX: Final = 1_000
"""So many record batches one response has at most: each takes some microseconds."""


class ShareFetchParameters:
    """What holds for the whole fetch. Times in ms, sizes in bytes."""

    __slots__ = ("is_gone", "max_bytes", "max_wait_ms", "min_bytes", "reserve", "wanted")

    def __init__(
        self,
        wanted: AcquireParameters,
        *,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        is_gone: Callable[[], bool] = lambda: False,
        reserve: Callable[[int], None] = lambda _: None,
    ) -> None:
        """`is_gone`: whether there is nobody left to acquire for.

        `reserve` counts the memory of what is being read; negative: it has been.
        """
        self.wanted = wanted
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max(max_bytes, 0)  # what a client says
        self.is_gone = is_gone
        self.reserve = reserve


class FetchedPartition:
    """One partition of a fetch, and what becomes of it."""

    __slots__ = ("acquired", "buffers", "error", "loaded", "session_partition", "size_bytes")

    def __init__(
        self,
        session_partition: SessionPartition,
        loaded: LoadedSharePartition | None,
        error: KafkaError | None = None,
    ) -> None:
        """Without a share partition there is an error."""
        self.session_partition = session_partition
        self.loaded = loaded
        self.error = error
        self.buffers: list[Buffer] = []
        self.size_bytes = 0
        self.acquired: Sequence[AcquiredRecords] = ()

    @property
    def fetch_offset(self) -> int | None:
        """Where it can be read now; None if it cannot."""
        return None if self.loaded is None else self.loaded.fetch_offset

    def take_over_error(self) -> bool:
        """Whether it has failed, now or before."""
        if self.error is None and self.loaded is not None:
            self.error = self.loaded.error
        return self.error is not None


Done = Callable[[Sequence[FetchedPartition]], None]


class DelayedShareFetch(DelayedOperation):
    """A fetch between its first look at the share partitions and its results."""

    __slots__ = (
        "_done",
        "_moved",
        "_parameters",
        "_partitions",
        "_pause",
        "_readable",
        "_readable_bytes",
        "_reads",
        "_spawn",
    )

    def __init__(
        self,
        partitions: Sequence[FetchedPartition],
        parameters: ShareFetchParameters,
        *,
        moved: Callable[[], LoadedSharePartition | None],
        reads: asyncio.Semaphore,
        pause: Pause,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        done: Done,
    ) -> None:
        """`moved`: which share partition has changed, None where all are to be looked at."""
        super().__init__(parameters.max_wait_ms)
        self._partitions = partitions
        self._parameters = parameters
        self._moved = moved
        self._reads = reads
        self._pause = pause
        self._spawn = spawn
        self._done = done
        # About how many bytes could be acquired of each when it was looked at, and of all.
        self._readable: dict[LoadedSharePartition, int] = {}
        self._readable_bytes = 0

    def try_complete(self) -> bool:
        """Whether there is an error or enough to read.

        Very many that wait, each for very many share partitions, may be woken by one of them: then
        only that one is looked at.
        """
        moved = self._moved()
        if moved is not None:
            if moved.error is not None:
                return True
            if moved.fetch_offset is None:
                return False
            return self._parameters.min_bytes <= 1 or self._has_enough(moved)
        if any(one.take_over_error() for one in self._partitions):
            return True
        if self.timeout_ms <= 0:
            return True
        if self._parameters.min_bytes <= 1:
            return any(one.fetch_offset is not None for one in self._partitions)
        return any(
            one.loaded is not None and self._has_enough(one.loaded) for one in self._partitions
        )

    def _has_enough(self, loaded: LoadedSharePartition) -> bool:
        """Look at one share partition; returns whether all have what the fetch waits for."""
        offset = loaded.fetch_offset
        size = 0 if offset is None else readable_bytes(loaded, offset)
        self._readable_bytes += size - self._readable.get(loaded, 0)
        self._readable[loaded] = size
        return self._readable_bytes >= self._parameters.min_bytes

    def on_complete(self) -> None:
        """Lock what can be read now, and read it; without that, end."""
        readable: list[FetchedPartition] = []
        if not self._parameters.is_gone():
            for one in self._partitions:
                if not one.take_over_error() and one.fetch_offset is not None:
                    assert one.loaded is not None
                    one.loaded.lock_fetch()
                    readable.append(one)
        if readable:
            self._spawn(self._read(readable))
        else:
            self._done(self._partitions)

    async def _read(self, readable: list[FetchedPartition]) -> None:
        """Read and acquire, one partition after the other."""
        budget = _Budget(self._parameters, len(readable))
        locked = iter(readable)
        self._parameters.reserve(self._parameters.max_bytes)
        try:
            for one in locked:
                assert one.loaded is not None
                try:
                    await self._pause()
                    if not budget.is_used_up and not self._parameters.is_gone():
                        await self._read_one(one, one.loaded, budget)
                except KafkaError as error:
                    one.error = error
                except Exception as error:
                    logger.error("a share fetch from %s failed", one.loaded.key, exc_info=error)
                    one.error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
                finally:
                    one.loaded.unlock_fetch()
        finally:
            for one in locked:  # where it is cancelled
                assert one.loaded is not None
                one.loaded.unlock_fetch()
            self._parameters.reserve(-self._parameters.max_bytes)
            self._done(self._partitions)

    async def _read_one(
        self, one: FetchedPartition, loaded: LoadedSharePartition, budget: _Budget
    ) -> None:
        settings = loaded.refresh_settings()
        offset, limit = loaded.read_offset, loaded.limit_offset
        if offset is None or offset >= limit:
            return
        log = loaded.partition.log
        size_max = min(budget.partition_bytes, max(readable_bytes(loaded, offset), 1))
        read: LogRead | None = log.read_nowait(offset, size_max, limit)
        aborted: Sequence[tuple[int, int]] = ()
        if read is not None:
            if settings.read_committed:
                read, aborted = log.reads.with_aborted(read, offset)
        else:
            try:
                async with self._reads:
                    read, aborted = await log.read_with_aborted(offset, size_max, limit)
            except KafkaError:
                if offset < log.log_start_offset:
                    return  # deleted meanwhile: the next fetch begins where the log does
                raise
            if self._parameters.is_gone():
                return
        if not loaded.is_active:
            one.take_over_error()
            return
        fetched = FetchedRecords(
            read.buffers, budget.batches, aborted if settings.read_committed else ()
        )
        acquired = loaded.acquire(budget.parameters, offset, fetched.batches)
        if acquired:
            one.acquired = acquired
            one.buffers = fetched.cut(acquired[0].first_offset, acquired[-1].last_offset)
            one.size_bytes = sum(map(len, one.buffers))
            loaded.partition.bytes_out += one.size_bytes
        else:
            one.take_over_error()
        budget.use(one, len(fetched.batches))


class _Budget:
    """What is left of the limits of one fetch."""

    __slots__ = ("_left_bytes", "_parameters", "_records", "batches", "partition_bytes")

    def __init__(self, parameters: ShareFetchParameters, partition_count: int) -> None:
        self._parameters = parameters.wanted
        self._left_bytes = parameters.max_bytes
        # The same for each, so that the first ones leave something (SHR-8).
        self.partition_bytes = max(1, parameters.max_bytes // partition_count)
        self._records = parameters.wanted.records_max
        self.batches = BATCHES_MAX

    @property
    def is_used_up(self) -> bool:
        """Whether nothing more may be read."""
        return self._left_bytes <= 0 or self._records <= 0 or self.batches <= 0

    @property
    def parameters(self) -> AcquireParameters:
        """What may still be acquired."""
        whole = self._parameters
        return AcquireParameters(
            member_id=whole.member_id,
            records_max=self._records,
            batch_size=whole.batch_size,
            is_record_limit=whole.is_record_limit,
        )

    def use(self, one: FetchedPartition, batch_count: int) -> None:
        """Count what was acquired, and the batches that were looked at."""
        self._left_bytes -= one.size_bytes
        self.batches -= batch_count
        self._records -= sum(last - first + 1 for first, last, _ in one.acquired)


def readable_bytes(loaded: LoadedSharePartition, offset: int) -> int:
    """About how many bytes from an offset on may be acquired now."""
    limit = min(loaded.limit_offset, loaded.records.window_end + 1)
    return loaded.partition.log.size_between(offset, limit)

"""The arbiter's record in one file of a disk that all machines share, with a broker's own client.

Nothing of it is a stand-in but the disk: the lock, the swap and the threads are the product's.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any

from barnabas_broker.arbiter.arbiter import ArbiterError, ArbiterRecord, Stored, SwapOutcome
from barnabas_broker.arbiter.local_file import LocalFileArbiter, decode, encode
from barnabas_broker.arbiter.polling import changes
from barnabas_broker.env.clock import Clock
from barnabas_broker.env.disk import Buffer
from tests.simulation.cluster.node import DiskTraits, NodeClock, NodeDisk
from tests.support.memory_arbiter import COPIES_MAX
from tests.support.simulated_disk import SimulatedLock
from tests.support.simulated_random import SimulatedRandom

PATH = "/arbiter/record"
THREADS_MAX = 100  # of all machines together


class SharedDisk(NodeDisk):
    """A disk on which much can happen between the beginning and the end of a thread's work.

    What a thread reads is there when it begins; what it replaces is replaced when it ends, and a
    lock that it takes is held until then. What is done on the loop is done at once.
    """

    def __init__(
        self, random: SimulatedRandom, clock: NodeClock, note: Callable[..., None]
    ) -> None:
        super().__init__(random, clock, note)
        self._threads = asyncio.Semaphore(THREADS_MAX)
        self._replaced: dict[str, bytes] = {}
        self._unlocked: list[SimulatedLock] = []
        self.begun_count = 0  # calls of threads, whether or not they have ended

    async def _in_thread(self, call: Callable[[], Any]) -> Any:
        unlocked: list[SimulatedLock] = []
        try:
            await asyncio.sleep(self._part_seconds())
            self._replaced, self._unlocked = {}, unlocked
            result = self._call(call)
            replaced = self._replaced
            self.begun_count += 1
            await asyncio.sleep(self._part_seconds())
            for path, data in replaced.items():
                super().write_atomically(path, data)
            return result
        finally:
            # The system does this for a process that is killed.
            for lock in unlocked:
                lock.close()

    def _part_seconds(self) -> float:
        return self.random.integer(1000 * self.traits.run_ms_max) / 1e6

    def write_atomically(self, path: str, data: Buffer) -> None:
        """Replace a file: at the end of the thread's work in a thread."""
        if self.is_in_thread:
            self._replaced[path] = bytes(data)
        else:
            super().write_atomically(path, data)

    def lock(self, path: str) -> SimulatedLock:
        """Take a lock, which ends with the thread's work in a thread."""
        lock = super().lock(path)
        if not self.is_in_thread:
            return lock
        self._unlocked.append(lock)
        return SimulatedLock(set(), path)


class FileStore:
    """As `MemoryStore`, but a file."""

    def __init__(
        self, random: SimulatedRandom, clock: NodeClock, note: Callable[..., None], run_ms_max: int
    ) -> None:
        self.is_away = False
        self.put_count = 0  # records that no swap has stored
        self._copies: deque[ArbiterRecord] = deque(maxlen=COPIES_MAX)
        self._run_ms_max = run_ms_max
        self._disk = SharedDisk(random, clock, note)
        self._disk.make_directories("/arbiter")
        self.slow_down(0)

    @property
    def stored(self) -> Stored:
        """What is in the file."""
        content = self._disk._names.get(PATH)
        return Stored(None, 0) if content is None else decode(bytes(content.data))

    @property
    def copies(self) -> deque[ArbiterRecord]:
        """The records that were seen, as backups have them."""
        record = self.stored.record
        if record is not None and (not self._copies or self._copies[-1] != record):
            self._copies.append(record)
        return self._copies

    def slow_down(self, run_ms_max: int) -> None:
        """Let swaps take longer than the disk needs anyway."""
        self._disk.use(DiskTraits(run_ms_max=max(run_ms_max, self._run_ms_max)))

    def replace(self, record: ArbiterRecord | None) -> None:
        """What an administrator does to the file."""
        self.put_count += 1
        token = self.stored.token
        if record is None:
            _ = self.copies
            self._disk.remove(PATH)
        else:
            self._disk.write_atomically(PATH, encode(Stored(record, token + 1)))

    def client(self, clock: Clock, poll_interval_ms: int) -> "FileClient":
        """How one process reaches it."""
        return FileClient(self, LocalFileArbiter(self._disk, clock, PATH, poll_interval_ms))


class FileClient:
    """A client that finds the file system away."""

    def __init__(self, store: FileStore, inner: LocalFileArbiter) -> None:
        self._store = store
        self._inner = inner

    async def read(self) -> Stored:
        """As the product's client. Raises: ArbiterError."""
        if self._store.is_away:
            raise ArbiterError("the store is away")
        return await self._inner.read()

    async def compare_and_swap(self, expected_token: int, record: ArbiterRecord) -> SwapOutcome:
        """As the product's client."""
        if self._store.is_away:
            return SwapOutcome.UNKNOWN
        return await self._inner.compare_and_swap(expected_token, record)

    def watch(self) -> AsyncIterator[Stored]:
        """As the product's client."""
        return changes(self.read, self._inner._poll_interval_ms)

    async def close(self) -> None:
        """As the product's client."""
        await self._inner.close()

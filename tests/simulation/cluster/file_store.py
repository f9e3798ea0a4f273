"""The arbiter's record in one file of a disk that all machines share, with a broker's own client.

Nothing of it is a stand-in but the disk: the lock, the swap and the threads are the product's.
"""

from collections import deque
from collections.abc import AsyncIterator, Callable

from barnabas_broker.arbiter.arbiter import ArbiterError, ArbiterRecord, Stored, SwapOutcome
from barnabas_broker.arbiter.local_file import LocalFileArbiter, decode, encode
from barnabas_broker.arbiter.polling import changes
from barnabas_broker.env.clock import Clock
from tests.simulation.cluster.node import DiskTraits, NodeClock, NodeDisk
from tests.support.memory_arbiter import COPIES_MAX
from tests.support.simulated_random import SimulatedRandom

PATH = "/arbiter/record"


class FileStore:
    """As `MemoryStore`, but a file."""

    def __init__(
        self, random: SimulatedRandom, clock: NodeClock, note: Callable[..., None], run_ms_max: int
    ) -> None:
        self.is_away = False
        self._copies: deque[ArbiterRecord] = deque(maxlen=COPIES_MAX)
        self._disk = NodeDisk(random, clock, note)
        self._disk.make_directories("/arbiter")
        self._disk.use(DiskTraits(run_ms_max=run_ms_max))

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

    def put(self, record: ArbiterRecord | None) -> None:
        """What an administrator does to the file."""
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

"""One machine of a cluster: its disk and clock, and the processes that run on it one after another.

A process is a whole `Server`, unchanged. It ends cleanly (SIGTERM), by a kill, where the disk keeps
all that was written, or with the machine's power, where the disk forgets what was not synced.
"""

import asyncio
import contextlib
import errno
import logging
import re
from collections.abc import Callable, Mapping
from contextvars import Context
from typing import Any, NamedTuple

from barnabas_broker.arbiter.arbiter import Arbiter
from barnabas_broker.env.disk import Buffer
from barnabas_broker.log.holes import HOLES_FILE
from barnabas_broker.log.leader_epochs import LEADER_EPOCH_FILE
from barnabas_broker.server import Server
from tests.simulation.cluster.trace import Trace
from tests.support.cluster_network import ClusterNetwork, HostNetwork
from tests.support.process_loop import PROCESS, Life, Process, ProcessLoop
from tests.support.simulated_disk import SimulatedDisk
from tests.support.simulated_random import SimulatedRandom

PORT = 9092
REPLICATION_PORT = 9091
USERS_PORT = 9095
UNLIMITED_BYTES = 1 << 40
MAY_BE_CUT = "unclean-"
"""How complaints about the topic begin whose leaders may lack records."""
NOTHING = re.compile(r"(?!)")
IS_CUT_BELOW = re.compile(r" is cut to \d+, below its high watermark ")
"""What a broker says whose batches have other leader epochs than its leader's below that offset."""
IS_KEPT = re.compile(r"-\d+$|-stray$")
# Who replaces these holds a lock meanwhile (tests/broker/log/test_locks_of_threads.py).
IS_LOCKED = re.compile(rf"/({HOLES_FILE}|{LEADER_EPOCH_FILE})$")
SYNCS = frozenset(("sync", "sync_directory"))
THREAD_COUNT = 4
"""As many as `RealDisk` has."""


class NodeClock:
    """Monotonic time is the loop's, at a rate of the machine's own; each wall clock can be set."""

    def __init__(self, loop: ProcessLoop, wall_ms: int) -> None:
        self._loop = loop
        self._wall_ahead_ms = wall_ms
        self.rate = 1.0

    def monotonic_ns(self) -> int:
        """Nanoseconds since the loop was made."""
        return round(self._loop.true_seconds * self.rate * 1e9)

    def monotonic_ms(self) -> int:
        """Milliseconds since the loop was made."""
        return round(self._loop.true_seconds * self.rate * 1e9) // 1_000_000

    def wall_ms(self) -> int:
        """What this machine takes for the time."""
        return self._wall_ahead_ms + self.monotonic_ms()

    def jump_wall(self, by_ms: int) -> None:
        """What an administrator or NTP does."""
        self._wall_ahead_ms += by_ms


class DiskTraits(NamedTuple):
    """How a story's disks work."""

    run_ms_max: int = 4
    sync_ms: int = 0  # what an fsync on the loop costs the whole process
    forgets_directories: bool = False
    reorders_writes: bool = False
    flips_bits: bool = False


def is_controller(node: "Node") -> bool:
    """Whether a node leads the metadata log, as far as it knows."""
    quorum = getattr(getattr(node.server, "control", None), "quorum", None)
    return quorum is not None and bool(quorum.is_active)


class NodeDisk(SimulatedDisk):
    """A disk that takes its time, and refuses those whose process is dead."""

    def __init__(
        self, random: SimulatedRandom, clock: NodeClock, note: Callable[..., None]
    ) -> None:
        super().__init__(random, clock)  # type: ignore[arg-type]
        self._note = note
        self.traits = DiskTraits()
        self._threads = asyncio.Semaphore(THREAD_COUNT)
        self._queued: set[asyncio.Task[Any]] = set()
        self._replaced_by_thread: set[str] = set()
        self._being_replaced: set[str] = set()
        self._working: dict[object, str] = {}
        self.on_overlap: Callable[[str], None] = lambda path: None
        self.operation_count = 0
        self.operations_left = -1
        self.on_limit: Callable[[], None] = lambda: None
        self.failing_prefix = ""
        self.has_failed = False
        self.on_append: Callable[[str, bytes], None] = lambda path, data: None
        self.on_loop_sync: Callable[[str], None] = lambda path: None
        self.on_kept_removed: Callable[[str], None] = lambda path: None

    def use(self, traits: DiskTraits) -> None:
        """Work in this way from now on."""
        self.traits = traits
        self.forgets_directories = traits.forgets_directories
        self.reorders_writes = traits.reorders_writes
        self.flips_bits = traits.flips_bits

    def begin_life(self) -> None:
        """A new process: the last one's threads and locks are gone, its open files are dead."""
        self._threads = asyncio.Semaphore(THREAD_COUNT)
        self._queued.clear()
        self._being_replaced = set()
        self._working = {}
        self._locks.clear()
        self._generation += 1

    async def _in_thread(self, call: Callable[[], Any]) -> Any:
        """Call it after a while and return another while later: much can happen in between."""
        task = asyncio.current_task()
        assert task is not None
        self._queued.add(task)
        async with self._threads:
            self._queued.discard(task)
            working = self._working
            working[task] = repr(call)
            try:
                await asyncio.sleep(self.random.integer(1000 * self.traits.run_ms_max) / 1e6)
                replaced = self._replaced_by_thread = set()
                try:
                    return self._call(call)
                finally:
                    # No other thread may work on the same file until this one has ended.
                    if twice := replaced & self._being_replaced:
                        self.on_overlap(min(twice))
                    self._being_replaced |= replaced
                    await asyncio.sleep(self.random.integer(1000 * self.traits.run_ms_max) / 1e6)
                    self._being_replaced -= replaced
            finally:
                del working[task]

    @property
    def work_of_threads(self) -> list[str]:
        """What threads of this life work on."""
        return list(self._working.values())

    def write_atomically(self, path: str, data: Buffer) -> None:
        """Replace a file."""
        if self.is_in_thread and IS_LOCKED.search(path) is None:
            self._replaced_by_thread.add(path)
        super().write_atomically(path, data)

    def _take_back(self, work: asyncio.Task[Any]) -> bool:
        if work not in self._queued:
            return False
        self._queued.discard(work)
        return work.cancel()

    def _checked(self, operation: str, path: str) -> str:
        process = PROCESS.get()
        if process is not None and process.life is Life.IS_DEAD:
            raise OSError(errno.EIO, "the process is dead", path)
        self.operation_count += 1
        self._note(operation, path)
        if operation in SYNCS and not self.is_in_thread and process is not None:
            self.on_loop_sync(path)
        if self.operation_count == self.operations_left:
            self.on_limit()
            raise OSError(errno.EIO, "the process is dead", path)
        if self.failing_prefix and path.startswith(self.failing_prefix):
            self.has_failed = True
            self.failure_count += 1
            raise OSError(errno.EIO, "the device does not answer", path)
        return super()._checked(operation, path)

    @property
    def is_about_to_fail(self) -> bool:
        """Whether some operation will fail."""
        return bool(self.failing_prefix) or super().is_about_to_fail

    def remove_tree(self, path: str) -> None:
        """Remove a folder; one of a partition has to be renamed before, and strays are kept."""
        if IS_KEPT.search(path) is not None and self.exists(path):
            self.on_kept_removed(path)
        super().remove_tree(path)

    def appended(self, path: str, data: bytes) -> None:
        """Tell of what is written to the logs of partitions."""
        if path.endswith(".log"):
            self.on_append(path, data)

    @property
    def is_bad(self) -> bool:
        """Whether it fails or is full at the moment."""
        return bool(self.failing_prefix) or self.capacity_bytes < UNLIMITED_BYTES

    def free_bytes(self, path: str) -> int:
        """A disk that is not meant to fill up need not be counted."""
        if self.capacity_bytes >= UNLIMITED_BYTES:
            return UNLIMITED_BYTES
        self.has_failed = True
        return super().free_bytes(path)


class Node:
    """A machine; `server` is the broker that runs on it, None while there is none."""

    def __init__(
        self,
        node_id: int,
        seed: int,
        properties: Mapping[str, str],
        loop: ProcessLoop,
        network: ClusterNetwork,
        arbiter: Callable[[Process], Arbiter],
        trace: Trace,
    ) -> None:
        self.node_id = node_id
        self.host = f"node-{node_id}"
        self.network = network
        self.trace = trace
        self._loop = loop
        self._arbiter = arbiter
        self._random = SimulatedRandom(seed)
        self.clock = NodeClock(loop, 1_700_000_000_000 + self._random.integer(1_000_000))
        self.disk_traits = DiskTraits()
        self.properties = {
            "node.id": str(node_id),
            "listeners": self._listeners(properties),
            "log.dirs": "/data",
            "broker.rack": f"rack-{node_id}",
            **properties,
        }
        self.loop_sync_count = 0
        self.tolerates = NOTHING
        self._has_new_disk = False
        self._has_wrong_bits = False
        self.is_old = False
        self.on_append: Callable[[Node, str, bytes], None] = lambda node, path, data: None
        self.disk = self._new_disk()
        self.process: Process | None = None
        self.server: Server | None = None
        self.is_ready = False
        self.life_count = 0
        self.problems: list[str] = []
        self.on_started: list[Callable[[Node], None]] = []
        self._has_lost_power = False
        self._stopping: asyncio.Event | None = None
        self._ended = asyncio.Event()
        self._ended.set()

    def _listeners(self, properties: Mapping[str, str]) -> str:
        """Those of clients and of brokers, and of users where they log in."""
        ports = {"PLAINTEXT": PORT, "REPLICATION": REPLICATION_PORT}
        if "listener.name.users.sasl.enabled.mechanisms" in properties:
            ports["USERS"] = USERS_PORT
        return ",".join(f"{name}://{self.host}:{port}" for name, port in ports.items())

    def _new_disk(self) -> NodeDisk:
        disk = NodeDisk(SimulatedRandom(self._random.integer(1 << 62)), self.clock, self._note)
        for directory in self.directories:
            disk.make_directories(directory)  # as whoever has mounted it
        disk.use(self.disk_traits)
        disk.on_append = lambda path, data: self.on_append(self, path, data)
        disk.on_loop_sync = self._synced_on_loop
        disk.on_overlap = lambda path: self._problem(f"two threads replace {path} at once")
        disk.on_kept_removed = lambda path: self._problem(f"removes what it has to keep: {path}")
        return disk

    @property
    def directories(self) -> list[str]:
        """The log directories."""
        return self.properties["log.dirs"].split(",")

    def _synced_on_loop(self, path: str) -> None:
        """Everything waits for the disk."""
        self.loop_sync_count += 1
        if self.is_ready:
            self._problem(f"fsync on the loop: {path}")
        process, cost_ms = self.process, self.disk_traits.sync_ms
        if cost_ms and process is not None and process.life is Life.RUNS:
            self._loop.stop_process(process)
            seconds = self._loop.true_seconds + cost_ms / 1000
            self._loop.call_at_true(seconds, self._loop.resume_process, process, context=Context())

    def use_traits(self, traits: DiskTraits) -> None:
        """Give this disk, and the next one, traits."""
        self.disk_traits = traits
        self.disk.use(traits)

    def _note(self, operation: str, path: str) -> None:
        self.trace.note(self.node_id, operation, path)

    @property
    def is_up(self) -> bool:
        """Whether there is a process, stopped ones included."""
        return self.process is not None

    @property
    def is_about_to_stop(self) -> bool:
        """Whether it was told to, or has to, though its process may not have come to it yet."""
        return self._stopping is not None and self._stopping.is_set()

    # What is done to it.

    def start(self) -> None:
        """Start a process; it may take a while until the broker is ready."""
        assert self.process is None
        self.life_count += 1
        self.trace.tell(self.host, "starts")
        if self._has_lost_power:
            self.disk.crash()
            self._has_wrong_bits |= self.disk_traits.flips_bits
            self.network.turn_on(self.host)
        self.disk.begin_life()
        self.network.forget_strikes(self.host)
        self._has_lost_power = False
        self.disk.operations_left = -1
        self.disk.on_limit = self.kill
        self.disk.has_failed = self.disk.is_bad or self.disk.is_about_to_fail
        self.process = Process(
            f"{self.host}.{self.life_count}", self.clock.rate, is_old=self.is_old
        )
        self._host_network = HostNetwork(self.network, self.host)
        self._stopping = asyncio.Event()
        self._ended = asyncio.Event()
        # The dying process may still draw, so each life has its own draws.
        random = SimulatedRandom(self._random.integer(1 << 62))
        self._loop.spawn(self.process, self._run(self.process, random, self._stopping))

    async def _run(
        self, process: Process, random: SimulatedRandom, stopping: asyncio.Event
    ) -> None:
        server = self.server = Server(
            self.properties,
            clock=self.clock,
            disk=self.disk,
            network=self._host_network,
            random=random,
            arbiter=self._arbiter(process),
            has_admin_http=False,
        )
        server.on_fatal = stopping.set
        for started in self.on_started:
            started(self)
        try:
            await self._serve(server, stopping)
        except Exception as error:
            if self.process is not process:
                return  # the last words of a dead process
            self._problem(f"it did not start: {error!r}")
        self.is_ready = False
        await server.stop()
        if self.disk.work_of_threads:
            # It says that all is flushed; and who is let go of a lock may not work on under it.
            self._problem(f"it has stopped, and threads go on: {self.disk.work_of_threads}")
        if server.fatal_error is not None:
            self._problem(f"it stopped by itself: {server.fatal_error!r}")
        self._end("has stopped")
        # What is left of it, as a process takes its tasks with it when it exits.
        self._loop.kill(process)

    async def _serve(self, server: Server, stopping: asyncio.Event) -> None:
        """Start, and return when it is to stop: as `barnabas_broker.__main__` does."""
        starting = asyncio.ensure_future(server.start())
        told = asyncio.ensure_future(stopping.wait())
        await asyncio.wait({starting, told}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await starting
            self.trace.tell(self.host, "is ready")
            self.is_ready = True
        await told

    def stop(self) -> None:
        """SIGTERM."""
        if self._stopping is not None:
            self.trace.tell(self.host, "is told to stop")
            self._stopping.set()

    def kill(self) -> None:
        """SIGKILL."""
        if self.process is not None:
            self._loop.kill(self.process)
            self._end("is killed")

    def lose_power(self) -> None:
        """The machine goes off, with or without a broker on it."""
        self._has_lost_power = True
        if self.process is not None:
            self._loop.kill(self.process)
            self._end("loses power")
        self.network.turn_off(self.host)

    def _end(self, how: str) -> None:
        self.trace.tell(self.host, how)
        self._host_network.is_off = True
        if self._has_lost_power:
            self.network.turn_off(self.host)
        else:
            self.network.end_process(self.host)
        self.process = self.server = self._stopping = None
        self.is_ready = False
        self._ended.set()

    def lose_disk(self) -> None:
        """The process dies and the disk with it; the next one finds an empty disk."""
        self.kill()
        self.trace.tell(self.host, "gets another disk")
        self._has_new_disk = True
        self.disk = self._new_disk()

    def lose_directory(self, directory: str) -> None:
        """The process dies; the next one finds one of its log directories on an empty disk."""
        self.kill()
        self.trace.tell(self.host, "gets another disk for", directory)
        self._has_new_disk = True
        self.disk.replace_directory(directory)

    def stand_still(self) -> None:
        """SIGSTOP."""
        if self.process is not None:
            self.trace.tell(self.host, "stands still")
            self._loop.stop_process(self.process)

    def go_on(self) -> None:
        """SIGCONT."""
        if self.process is not None and self.process.life is Life.STANDS:
            self.trace.tell(self.host, "goes on")
            self._loop.resume_process(self.process)

    async def ended(self) -> None:
        """Return when there is no process."""
        await self._ended.wait()

    # What it says.

    def log(self, record: logging.LogRecord) -> None:
        """Take note of a warning or an error of the process that runs now."""
        line = record.getMessage()
        if record.exc_info is not None:
            line += f": {record.exc_info[1]!r}"
        self.trace.tell(self.host, record.levelname.lower(), line)
        if record.levelno == logging.ERROR and not line.startswith(MAY_BE_CUT):
            self._problem(line)

    def unhandled(self, context: Mapping[str, Any]) -> None:
        """Take note of an exception that nobody has caught."""
        self._problem(f"{context['message']}: {context.get('exception')!r}")

    def _problem(self, what: str) -> None:
        self.trace.tell(self.host, "has a problem:", what)
        # The metadata may know the replicas of a disk that is gone for a while.
        is_of_old_disk = self._has_new_disk and "has no log: KAFKA_STORAGE_ERROR" in what
        # No CRC covers the leader epoch of a batch: a log that power was lost for may have another
        # one than its leader's, where it was not synced.
        is_of_wrong_bit = self._has_wrong_bits and IS_CUT_BELOW.search(what) is not None
        is_expected = self.disk.has_failed or is_of_old_disk or is_of_wrong_bit
        if not (is_expected or self.tolerates.search(what)):
            self.problems.append(f"{self._loop.time():.3f} {self.host}: {what}")


def has_lost_directory(server: Server) -> bool:
    """Whether a broker goes on without one of its directories: it takes it back at a start."""
    return any(directory.is_offline for directory in server.logs.directories)

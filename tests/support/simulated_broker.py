"""A machine that runs whole brokers, one life after the other, on virtual time and one disk.

Each life is a `Server`, unchanged, on a loop of its own. A life ends by itself, by a killed process
(the disk keeps all that was written) or by lost power (the disk forgets what was not synced, and
tears the last write). The moment is a number of disk operations from now, so that every step of
every protocol is hit; from then on the disk refuses and the network is silent, whatever the dying
process still tries. One seed draws everything; `trace` tells two runs of a seed apart.
"""

import asyncio
import contextlib
import errno
import logging
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from typing import Any, ParamSpec, TypeVar

from barnabas_broker.env.network import Network
from barnabas_broker.server import Server
from tests.support.raw_client import RawClient
from tests.support.simulated_disk import SimulatedDisk
from tests.support.simulated_network import SimulatedNetwork
from tests.support.simulated_random import SimulatedRandom
from tests.support.virtual_loop import DeadlockError, VirtualLoop

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
HOST = "127.0.0.1"
RUN_MS_MAX = 20
"""How long a piece of work in the disk's thread pool may take."""

ROUNDS_MAX = 100


class End(Enum):
    """How a life ends before its work is done."""

    KILL = "the process is killed"
    POWER_LOSS = "power is lost"


class MachineClock:
    """Monotonic time is the loop's; the wall goes on from life to life and can be set."""

    def __init__(self, wall_ms: int = 1_700_000_000_000) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wall_ahead_ms = wall_ms

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Go on with a new loop, whose time starts at 0."""
        self._wall_ahead_ms = self.wall_ms()
        self._loop = loop

    def monotonic_ns(self) -> int:
        return 0 if self._loop is None else round(self._loop.time() * 1e9)

    def monotonic_ms(self) -> int:
        return self.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        return self._wall_ahead_ms + self.monotonic_ms()

    def jump_wall(self, by_ms: int) -> None:
        self._wall_ahead_ms += by_ms


class MachineDisk(SimulatedDisk):
    """The disk of a machine: takes time, counts its operations, and stops at one of them."""

    def __init__(self, random: SimulatedRandom, clock: MachineClock) -> None:
        super().__init__(random, clock)  # type: ignore[arg-type]
        self.is_off = False
        self.operation_count = 0
        self.operations_left: int | None = None
        self.trace: list[tuple[int, str, str]] = []
        self.failing_prefix: str | None = None
        self.on_off: Callable[[], None] | None = None

    def turn_on(self, end: End | None) -> None:
        """Be as the next process finds it after the last one's end."""
        self.is_off = False
        self.operations_left = None
        if end is End.POWER_LOSS:
            self.crash()
        else:
            self._locks.clear()
            self._generation += 1

    async def _in_thread(self, call: Callable[[], Result]) -> Result:
        """Call it after a while and return another while later: much can happen in between."""
        await asyncio.sleep(self.random.integer(RUN_MS_MAX) / 1000)
        try:
            return self._call(call)
        finally:
            await asyncio.sleep(self.random.integer(RUN_MS_MAX) / 1000)

    def _checked(self, operation: str, path: str) -> str:
        if self.is_off:
            raise OSError(errno.EIO, "the machine is off", path)
        self.operation_count += 1
        self.trace.append((self.clock.monotonic_ns(), operation, path))
        if self.operations_left is not None:
            self.operations_left -= 1
            if self.operations_left <= 0:
                self.is_off = True
                if self.on_off is not None:
                    self.on_off()
                raise OSError(errno.EIO, "the machine goes off", path)
        if self.failing_prefix is not None and path.startswith(self.failing_prefix):
            raise OSError(errno.EIO, "the device does not answer", path)
        return super()._checked(operation, path)


class Life:
    """One process of a broker and the means to reach it."""

    def __init__(self, machine: "Machine", server: Server, network: SimulatedNetwork) -> None:
        self.machine = machine
        self.server = server
        self.network = network

    async def connect(self) -> RawClient:
        """A client of this broker."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=1 << 26, loop=loop)
        transport, protocol = await self.network.connect(
            lambda: asyncio.StreamReaderProtocol(reader, loop=loop), HOST, self.server.port
        )
        return RawClient(reader, asyncio.StreamWriter(transport, protocol, reader, loop))


Work = Callable[[Life], Awaitable[None]]


class Machine:
    """Disk, clock and randomness, which outlive the processes; `errors` are those they logged."""

    def __init__(self, seed: int, properties: Mapping[str, str] | None = None) -> None:
        self.seed = seed
        self.random = SimulatedRandom(seed)
        self.clock = MachineClock()
        # Of its own: what the disk draws must not depend on what a test draws.
        self.disk = MachineDisk(SimulatedRandom(seed + 1), self.clock)
        self.properties = {
            "node.id": "0",
            "listeners": f"PLAINTEXT://{HOST}:9092",
            "log.dirs": "/data",
            "offsets.topic.num.partitions": "2",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **(properties or {}),
        }
        self.last_end: End | None = None
        self.lives: list[str] = []
        self.errors: list[str] = []
        self.lines: list[str] = []
        self.piece_bytes_max = 1 << 30

    def live(self, work: Work, *, end: End | None = None, operations: int | None = None) -> bool:
        """Start a broker, do the work and stop it; False if the life ended before that.

        With `end`, it does after so many operations of the disk, wherever that is.
        """
        self.disk.turn_on(self.last_end)
        self.last_end = None
        self.lives.append(f"{operations} operations, then {end}" if end else "to its end")
        # The dying process may still draw, so each life has its own draws.
        life_random = SimulatedRandom(self.random.integer(1 << 62))
        handler = _Lines(self)
        broker_logger = logging.getLogger("barnabas_broker")
        broker_logger.addHandler(handler)
        loop = VirtualLoop()
        self.clock.begin(loop)
        loop.set_exception_handler(self._unhandled_of(len(self.lives)))
        try:
            loop.run_until_complete(self._live(work, life_random, end, operations))
        finally:
            self.disk.is_off = True
            _end_tasks(loop)
            loop.close()
            broker_logger.removeHandler(handler)
        return self.last_end is None

    async def _live(
        self, work: Work, random: SimulatedRandom, end: End | None, operations: int | None
    ) -> None:
        network = SimulatedNetwork(self.piece_bytes_max)
        is_off = asyncio.Event()

        def go_off() -> None:
            self.last_end = end
            network.cut(HOST, HOST)
            is_off.set()

        self.disk.on_off = go_off
        self.disk.operations_left = operations
        life_task = asyncio.ensure_future(self._process(work, random, network))
        off_task = asyncio.ensure_future(is_off.wait())
        await asyncio.wait({life_task, off_task}, return_when=asyncio.FIRST_COMPLETED)
        off_task.cancel()
        if not is_off.is_set():
            await life_task

    async def _process(
        self, work: Work, random: SimulatedRandom, network: SimulatedNetwork
    ) -> None:
        server = Server(
            self.properties,
            clock=self.clock,
            disk=self.disk,
            network=_as_network(network),
            random=random,
            has_admin_http=False,
        )
        await server.start()
        try:
            await work(Life(self, server, network))
        finally:
            await server.stop()

    def _unhandled_of(self, life: int) -> Callable[[asyncio.AbstractEventLoop, Any], None]:
        """Note what nobody handled; not what the tasks of a dead process leave behind."""

        def unhandled(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            if not self.disk.is_off and life == len(self.lives):
                self.errors.append(f"{context['message']}: {context.get('exception')!r}")

        return unhandled


def _end_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel what is left of a dead process, more than once where its disk's errors got between."""
    for _ in range(ROUNDS_MAX):
        tasks = asyncio.all_tasks(loop)
        if not tasks:
            return
        for task in tasks:
            task.cancel()
        with contextlib.suppress(DeadlockError):
            loop.run_until_complete(asyncio.wait(tasks, timeout=1))
        for task in tasks:
            if task.done() and not task.cancelled():
                task.exception()
    raise AssertionError(f"these tasks cannot be cancelled: {tasks}")


class _Lines(logging.Handler):
    """Keeps what a broker logs while its machine is on."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(logging.WARNING)
        self._machine = machine

    def emit(self, record: logging.LogRecord) -> None:
        if self._machine.disk.is_off:
            return
        line = record.getMessage()
        if record.exc_info is not None:
            line += f": {record.exc_info[1]!r}"
        self._machine.lines.append(line)
        if record.levelno >= logging.ERROR:
            self._machine.errors.append(line)


def _as_network(network: SimulatedNetwork) -> Network:
    return network  # type: ignore[return-value]

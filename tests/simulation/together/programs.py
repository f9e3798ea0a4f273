"""Programs of our own clients on a cluster's network, each in a process of its own.

The clients are unchanged: their clock, randomness and sockets are the cluster's while a story runs.
A program may be killed, stand still, cancel its calls, or end while a task holds a client.
"""

import asyncio
import contextlib
import random
import ssl
from collections.abc import Awaitable, Coroutine, Mapping
from typing import Any
from weakref import WeakSet

from barnabas_client.env import Environment
from barnabas_client.errors import BarnabasError
from tests.simulation.cluster.client import CLIENTS_HOST
from tests.simulation.cluster.cluster import Cluster
from tests.simulation.cluster.node import NodeClock
from tests.support.client_seams import client_seams
from tests.support.cluster_network import LinkTransport
from tests.support.process_loop import PROCESS, Process

ENDING_SECONDS = 60.0
LIMIT_SECONDS = 30.0
WALL_MS = 1_700_000_000_000


class Violation(AssertionError):
    """Something that must hold of a client does not."""


class Newcomer(asyncio.Protocol):
    """Holds a connection until the client takes it."""

    def __init__(self) -> None:
        self.is_lost = False

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that there is nothing to take any more."""
        self.is_lost = True


class Program(Process):
    """A process of a client; `own` is the tasks of all programs."""

    def __init__(self, name: str, own: "WeakSet[asyncio.Task[Any]]") -> None:
        super().__init__(name)
        self._own = own

    def note(self, task: asyncio.Task[Any]) -> None:
        """Remember a task, also when it is done."""
        super().note(task)
        self._own.add(task)


class Programs:
    """What starts, kills and watches over the programs of one story."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster = cluster
        self.loop = cluster.loop
        self.complaints: list[str] = []
        self._clock = NodeClock(cluster.loop, WALL_MS)
        self._random = random.Random(f"clients {seed}")
        self._own: WeakSet[asyncio.Task[Any]] = WeakSet()
        self._has_killed = False
        cluster.loop.set_exception_handler(self._unhandled)

    # What the clients take from outside.

    def seams(self) -> contextlib.AbstractContextManager[None]:
        """Replace the clients' clock, randomness and sockets."""
        return client_seams(self._connect, self._start, self._environment)

    def _environment(self) -> Environment:
        drawn = random.Random(self._random.getrandbits(64))
        return Environment(clock=self._clock, random=drawn)

    async def _connect(self, host: str, port: int, **_: Any) -> Any:
        network = self.cluster.network
        return await network.connect(Newcomer, host, port, from_host=CLIENTS_HOST)

    async def _start(
        self, protocol: asyncio.BaseProtocol, opened: Any, tls: ssl.SSLContext | None, host: str
    ) -> None:
        transport, newcomer = opened
        if newcomer.is_lost:
            raise ConnectionResetError(f"{host} has closed the connection")
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        await asyncio.sleep(0)

    # Programs.

    def kill(self, process: Process) -> None:
        """SIGKILL: its system resets its connections."""
        self._has_killed = True
        # Nobody is left to look at how they end.
        self._own -= WeakSet(process.tasks)
        self._end(process)

    def _end(self, process: Process) -> None:
        self.loop.kill(process)
        for link in self._links_of(process):
            link.vanish(is_silent=False)

    def _links_of(self, process: Process) -> list[LinkTransport]:
        return [link for link in self.cluster.network.links if link.context.get(PROCESS) is process]

    async def run(
        self, name: str, main: Coroutine[Any, Any, None], draws: random.Random | None = None
    ) -> bool:
        """Run a program; with draws it may be killed, or stand still. Returns if it was killed."""
        fates = ("ends", "ends", "ends", "is killed", "stands still")
        fate = "ends" if draws is None else draws.choice(fates)
        process = Program(name, self._own)
        task = self.loop.spawn(process, main)
        if draws is not None and fate == "is killed":
            await asyncio.wait([task], timeout=draws.uniform(0, 8))
            if not task.done():
                self.cluster.trace.tell(name, fate)
                self.kill(process)
                await asyncio.sleep(0.01)
                return True
        elif draws is not None and fate == "stands still":
            await asyncio.wait([task], timeout=draws.uniform(0, 4))
            self.cluster.trace.tell(name, fate)
            self.loop.stop_process(process)
            await asyncio.sleep(draws.choice((0.5, 3.0, 12.0)))
            self.loop.resume_process(process)
            self.cluster.trace.tell(name, "goes on")
        await self._finish(process, task)
        return False

    async def _finish(self, process: Process, main: asyncio.Task[Any]) -> None:
        """Wait for the end of a program, and end its other tasks as `asyncio.run` does."""
        await asyncio.wait([main])
        if main.cancelled():
            raise Violation(f"the program {process.name} was cancelled")
        error = main.exception()
        if error is not None:
            raise error
        left = [one for one in process.tasks if not one.done()]
        for one in left:
            one.cancel()
        if left:
            _, stuck = await asyncio.wait(left, timeout=ENDING_SECONDS)
            if stuck:
                raise Violation(f"the program {process.name} does not end: {stuck}")
        await asyncio.sleep(0.01)
        left = [one for one in process.tasks if not one.done()]
        if left:
            raise Violation(f"the program {process.name} leaves {left}")
        self._end(process)  # what it did not close goes with it

    # Calls.

    async def within(self, call: Awaitable[Any], name: str) -> Any:
        """Await a call that has to end within its time."""
        task = asyncio.ensure_future(call)
        # Whoever waits here may be killed before it is told.
        task.add_done_callback(_look_at)
        try:
            await asyncio.wait([task], timeout=LIMIT_SECONDS)
        except asyncio.CancelledError:
            task.cancel()
            with contextlib.suppress(BaseException):
                await task
            raise
        if not task.done():
            stack = task.get_stack()
            task.cancel()
            raise Violation(f"{name} takes longer than {LIMIT_SECONDS} s: {stack}")
        return task.result()

    async def interrupted(
        self, call: Coroutine[Any, Any, Any], name: str, draws: random.Random
    ) -> None:
        """Make a call, perhaps cancel it after a while; its failures are the program's own."""
        task = asyncio.ensure_future(call)
        task.add_done_callback(_look_at)
        await asyncio.sleep(0)  # so that the call has begun
        if draws.random() < 0.4:
            if draws.random() < 0.5:
                for _ in range(draws.randint(0, 12)):
                    await asyncio.sleep(0)
            else:
                await asyncio.sleep(draws.random() ** 3)
            task.cancel()
            self.cluster.trace.tell(name, "is cancelled")
        with contextlib.suppress(asyncio.CancelledError, BarnabasError):
            await self.within(task, name)

    def _unhandled(self, loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
        if self._is_own(context):
            self.complaints.append(f"{context.get('message')}: {context.get('exception')!r}")
        else:
            self.cluster.unhandled(loop, context)

    def _is_own(self, context: Mapping[str, Any]) -> bool:
        """Whether it is about a program that lives."""
        ended = context.get("task") or context.get("future")
        if isinstance(ended, asyncio.Task):
            return ended in self._own
        if ended is not None:
            # Whose a mere future is cannot be told.
            return not self._has_killed and isinstance(context.get("exception"), BarnabasError)
        handle = context.get("handle")
        return handle is not None and isinstance(handle._context.get(PROCESS), Program)


def bootstrap(cluster: Cluster) -> list[str]:
    """What a program is told of a cluster."""
    return [f"{host}:{port}" for host, port in cluster.addresses]


def _look_at(task: asyncio.Future[Any]) -> None:
    if not task.cancelled():
        task.exception()

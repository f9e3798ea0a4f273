"""Who refuses connections, since when, and what is never taken for a refusal."""

import asyncio
import errno
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvloop

from barnabas_broker.env.clock import Clock, SystemClock
from barnabas_broker.env.network import Network, RealNetwork
from barnabas_broker.network.reachability import Reachability
from tests.support.peer_nodes import PeerNode, until
from tests.support.simulated_network import SimulatedNetwork
from tests.support.virtual_loop import VirtualClock, run_virtual


class Bench:
    """Node 1 and who watches it."""

    def __init__(self, network: Network, clock: Clock) -> None:
        self.node = PeerNode(network)
        self.addresses: dict[int, tuple[str, int]] = {}
        self.clock = clock
        self.changes: list[tuple[int, bool]] = []
        self.reachability = Reachability(network, clock, resolve=self.addresses.get)
        self.reachability.on_refused_change.append(self._changed)

    def _changed(self, node_id: int) -> None:
        since_ms = self.reachability.refused_since_ms(node_id)
        self.changes.append((node_id, since_ms is not None))

    async def __aenter__(self) -> "Bench":
        await self.node.start()
        self.addresses[1] = self.node.address
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.reachability.close()
        await self.node.stop()
        mine = asyncio.current_task()
        assert [task for task in asyncio.all_tasks() if task is not mine] == []


Work = Callable[[Bench], Awaitable[None]]


def on_every_network(work: Work) -> None:
    async def simulated() -> None:
        async with Bench(SimulatedNetwork(), VirtualClock(asyncio.get_running_loop())) as bench:
            await work(bench)

    async def real() -> None:
        async with Bench(RealNetwork(), SystemClock()) as bench:
            await work(bench)

    run_virtual(simulated())
    asyncio.run(real())
    uvloop.run(real())


class ScriptedNetwork(SimulatedNetwork):
    """Fails connections as it is told; None lets them hang."""

    def __init__(self) -> None:
        super().__init__()
        self.failure: Exception | None = None
        self.attempts_count = 0

    async def connect(self, *arguments: Any, **options: Any) -> Any:
        self.attempts_count += 1
        if self.failure is None:
            await asyncio.Event().wait()
            raise AssertionError
        raise self.failure


REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "nobody listens")


def with_script(work: Callable[[Bench, ScriptedNetwork], Awaitable[None]]) -> None:
    async def run() -> None:
        network = ScriptedNetwork()
        async with Bench(network, VirtualClock(asyncio.get_running_loop())) as bench:
            await work(bench, network)

    run_virtual(run())


def test_a_node_that_accepts_is_suspected_no_more() -> None:
    async def work(bench: Bench) -> None:
        bench.reachability.suspect(1)
        assert bench.reachability.is_suspected(1)
        await until(lambda: not bench.reachability.is_suspected(1))
        assert bench.reachability.refused_since_ms(1) is None
        assert bench.changes == []

    on_every_network(work)


def test_a_node_that_refuses_is_told_at_once_and_until_it_accepts() -> None:
    """`broker.fence.on.refused.ms` counts from the first refusal."""

    async def work(bench: Bench) -> None:
        bench.node.stop_listening()
        before_ms = bench.clock.monotonic_ms()
        bench.reachability.suspect(1)
        bench.reachability.suspect(1)
        await until(lambda: bench.changes == [(1, True)])
        since_ms = bench.reachability.refused_since_ms(1)
        assert since_ms is not None
        assert before_ms <= since_ms <= bench.clock.monotonic_ms()
        await until(lambda: bench.clock.monotonic_ms() > since_ms + 120)
        assert bench.reachability.refused_since_ms(1) == since_ms
        await bench.node.start()
        await until(lambda: bench.changes == [(1, True), (1, False)])
        assert not bench.reachability.is_suspected(1)

    on_every_network(work)


def test_silence_is_not_a_refusal() -> None:
    """A lost network or a paused machine: only the session timeout may fence."""

    async def work(bench: Bench, network: ScriptedNetwork) -> None:
        bench.reachability.suspect(1)
        await until(lambda: network.attempts_count == 3)
        assert bench.changes == []
        assert bench.reachability.is_suspected(1)

    with_script(work)


@pytest.mark.parametrize(
    "failure",
    [
        *(OSError(n, "no way") for n in (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ETIMEDOUT)),
        OverflowError("connect(): port must be 0-65535."),
        ValueError("embedded null character"),
    ],
)
def test_a_node_that_cannot_be_reached_any_more_does_not_refuse(failure: Exception) -> None:
    """Where its address is none, either: the arbiter's record is written by people, too."""

    async def work(bench: Bench, network: ScriptedNetwork) -> None:
        network.failure = REFUSED
        bench.reachability.suspect(1)
        await until(lambda: bench.changes == [(1, True)])
        network.failure = failure
        await until(lambda: bench.changes == [(1, True), (1, False)])
        assert bench.reachability.is_suspected(1)
        network.failure = REFUSED
        now_ms = bench.clock.monotonic_ms()
        await until(lambda: len(bench.changes) == 3)
        since_ms = bench.reachability.refused_since_ms(1)
        assert since_ms is not None
        assert since_ms >= now_ms

    with_script(work)


def test_a_forgotten_node_is_not_probed_and_does_not_refuse() -> None:
    async def work(bench: Bench, network: ScriptedNetwork) -> None:
        network.failure = REFUSED
        bench.reachability.suspect(1)
        await until(lambda: bench.changes == [(1, True)])
        bench.reachability.forget(1)
        assert bench.changes == [(1, True), (1, False)]
        count = network.attempts_count
        await asyncio.sleep(10)
        assert network.attempts_count == count
        bench.reachability.forget(1)
        bench.reachability.suspect(1)
        await until(lambda: bench.changes == [(1, True), (1, False), (1, True)])

    with_script(work)


def test_a_node_without_an_address_is_not_probed() -> None:
    async def work(bench: Bench, network: ScriptedNetwork) -> None:
        network.failure = REFUSED
        bench.reachability.suspect(1)
        await until(lambda: bench.changes == [(1, True)])
        del bench.addresses[1]
        await until(lambda: not bench.reachability.is_suspected(1))
        assert bench.changes == [(1, True), (1, False)]

    with_script(work)


def test_who_stays_away_is_probed_less_often() -> None:
    """Twenty attempts a second for a broker that is gone for a day would be for nothing."""

    async def work(bench: Bench, network: ScriptedNetwork) -> None:
        network.failure = REFUSED
        bench.reachability.suspect(1)
        await asyncio.sleep(10)
        quick_count = network.attempts_count
        assert quick_count == pytest.approx(200, abs=3)
        await asyncio.sleep(100)
        assert network.attempts_count - quick_count == pytest.approx(200, abs=3)
        assert len(bench.changes) == 1

    with_script(work)


def test_closing_ends_the_probes() -> None:
    async def work(bench: Bench, network: ScriptedNetwork) -> None:
        bench.reachability.suspect(1)
        await asyncio.sleep(0)
        await bench.reachability.close()
        bench.reachability.suspect(1)
        assert not bench.reachability.is_suspected(1)

    with_script(work)

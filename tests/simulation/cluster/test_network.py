"""The network between hosts: delay, order, partitions, resets, and machines without power."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.support.cluster_network import ClusterNetwork, HostNetwork
from tests.support.process_loop import Process, ProcessLoop
from tests.support.simulated_random import SimulatedRandom


class Ears(asyncio.Protocol):
    """Writes down what it hears, and answers if asked to."""

    def __init__(self, answers: bool = False) -> None:
        self.pieces: list[bytes] = []
        self.is_lost = False
        self.error: Exception | None = None
        self._answers = answers

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self.pieces.append(data)
        if self._answers:
            self.transport.write(data.upper())

    def heard(self) -> bytes:
        return b"".join(self.pieces)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_lost, self.error = True, error


class Bench:
    """Two hosts, `a` and `b`; a broker on `b`."""

    def __init__(self) -> None:
        self.loop = ProcessLoop()
        self.network = ClusterNetwork(SimulatedRandom(1), lambda *what: None)
        self.network.latency_ms = 10
        self.process = Process("b")
        self.accepted: list[Ears] = []

    def accept(self) -> Ears:
        self.accepted.append(Ears(answers=True))
        return self.accepted[-1]

    async def start(self) -> Ears:
        """A listener on `b`, and a connection of `a` to it."""
        host = HostNetwork(self.network, "b")
        await self.loop.spawn(self.process, host.listen(self.accept, "", 1))
        return await self.connect()

    async def connect(self) -> Ears:
        _, ears = await HostNetwork(self.network, "a").connect(Ears, "b", 1)
        return ears

    def run(self, story: Callable[["Bench"], Awaitable[None]]) -> None:
        async def work() -> None:
            await story(self)

        try:
            self.loop.run_until_complete(work())
        finally:
            self.loop.close()


def test_bytes_take_time_and_keep_their_order() -> None:
    async def story(bench: Bench) -> None:
        bench.network.slow_share, bench.network.slow_latency_ms = 0.5, 100
        ears = await bench.start()
        for number in range(50):
            ears.transport.write(b"%d " % number)
        await asyncio.sleep(0.004)
        assert not bench.accepted[0].heard()
        await asyncio.sleep(2)
        assert ears.heard() == bench.accepted[0].heard() == b"".join(b"%d " % n for n in range(50))

    Bench().run(story)


def test_what_a_cut_holds_up_arrives_when_it_heals() -> None:
    async def story(bench: Bench) -> None:
        ears = await bench.start()
        bench.network.cut("a", "b")
        ears.transport.write(b"x")
        ears.transport.close()
        await asyncio.sleep(10)
        (far,) = bench.accepted
        assert not far.heard()
        assert not far.is_lost
        bench.network.heal()
        await asyncio.sleep(1)
        assert far.heard() == b"x"
        assert far.is_lost

    Bench().run(story)


def test_a_one_way_cut_lets_the_other_way_through() -> None:
    async def story(bench: Bench) -> None:
        ears = await bench.start()
        bench.network.cut_one_way("b", "a")
        ears.transport.write(b"x")
        await asyncio.sleep(1)
        assert bench.accepted[0].heard() == b"x"
        assert not ears.heard()
        bench.network.heal()
        await asyncio.sleep(1)
        assert ears.heard() == b"X"

    Bench().run(story)


def test_connecting_over_a_cut_waits_and_is_not_refused() -> None:
    """REG-5: only a refusal tells that a broker is gone."""

    async def story(bench: Bench) -> None:
        await bench.start()
        bench.network.cut("a", "b")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await bench.connect()
        waiting = asyncio.create_task(bench.connect())
        await asyncio.sleep(2)
        bench.network.heal()
        assert await waiting

    Bench().run(story)


def test_a_killed_process_resets_and_refuses() -> None:
    async def story(bench: Bench) -> None:
        ears = await bench.start()
        bench.loop.kill(bench.process)
        bench.network.end_process("b")
        await asyncio.sleep(1)
        assert isinstance(ears.error, ConnectionResetError)
        with pytest.raises(ConnectionRefusedError):
            await bench.connect()

    Bench().run(story)


def test_a_machine_without_power_is_silent_until_it_is_back() -> None:
    async def story(bench: Bench) -> None:
        ears = await bench.start()
        bench.loop.kill(bench.process)
        bench.network.turn_off("b")
        ears.transport.write(b"x")
        await asyncio.sleep(100)
        assert not ears.is_lost
        bench.network.turn_on("b")
        await asyncio.sleep(1)
        assert isinstance(ears.error, ConnectionResetError)

    Bench().run(story)


def test_a_process_that_stands_still_is_connected_to_and_answers_late() -> None:
    """The system accepts for it, as TCP does for a stopped process."""

    async def story(bench: Bench) -> None:
        await bench.start()
        bench.loop.stop_process(bench.process)
        ears = await bench.connect()
        ears.transport.write(b"x")
        await asyncio.sleep(5)
        assert not ears.heard()
        bench.loop.resume_process(bench.process)
        await asyncio.sleep(1)
        assert ears.heard() == b"X"

    Bench().run(story)


def test_whoever_did_not_hear_of_the_end_learns_it_by_writing() -> None:
    async def story(bench: Bench) -> None:
        ears = await bench.start()
        await asyncio.sleep(1)
        bench.network.cut("a", "b")
        bench.accepted[0].transport.abort()
        await asyncio.sleep(5)
        bench.network.heal()
        await asyncio.sleep(5)
        assert not ears.is_lost
        ears.transport.write(b"x")
        await asyncio.sleep(1)
        assert isinstance(ears.error, ConnectionResetError)

    Bench().run(story)


def test_a_slow_link_heals_alone_and_a_hidden_host_stays_hidden() -> None:
    """Healing one link leaves the others as they are; nothing but `show_all` shows a host."""

    async def story(bench: Bench) -> None:
        network = bench.network
        ears = await bench.start()
        network.slow_link("a", "b", 500)
        network.cut("b", "c")
        assert network.troubled_links == [("a", "b"), ("b", "c"), ("c", "b")]
        began = bench.loop.time()
        ears.transport.write(b"slowly")
        while not bench.accepted[0].heard():
            await asyncio.sleep(0.01)
        assert bench.loop.time() - began > 0.5
        network.heal_link("a", "b")
        assert network.troubled_links == [("b", "c"), ("c", "b")]
        network.hide("a", "b")
        network.heal()
        network.heal_link("b", "a")
        assert not network.can_reach("a", "b")
        network.show_all()
        assert network.can_reach("a", "b")
        assert not network.is_troubled

    Bench().run(story)


def test_a_host_is_struck_when_it_has_answered() -> None:
    """Its answer arrives, and nothing that it would say later."""

    async def story(bench: Bench) -> None:
        ears = await bench.start()
        struck_after: list[int] = []
        network = bench.network
        network.strike_after("b", 3, lambda: struck_after.append(len(bench.accepted[0].pieces)))
        assert network.will_strike("b")
        for api_key in (2, 3, 3):
            ears.transport.write(bytes((0, 0, 0, 2, 0, api_key)))
            await asyncio.sleep(1)
        assert struck_after == [2]
        assert not network.will_strike("b")
        assert network.request_counts == {2: 1, 3: 2}

    Bench().run(story)


def test_a_new_process_is_not_struck_for_what_its_host_was_to_answer() -> None:
    async def story(bench: Bench) -> None:
        ears = await bench.start()
        bench.network.strike_after("b", 3, lambda: pytest.fail("it is struck"))
        bench.network.forget_strikes("b")
        ears.transport.write(bytes((0, 0, 0, 2, 0, 3)))
        await asyncio.sleep(1)

    Bench().run(story)

"""The drain with its timers, against metadata and a controller made by hand, on virtual time."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from barnabas_broker.lifecycle.drain import DrainEnd, DrainPhase
from barnabas_broker.lifecycle.drainer import Drainer
from barnabas_broker.metadata.image import MetadataImage
from tests.broker.lifecycle.drain_images import broker, image, led_by
from tests.broker.lifecycle.lifecycle_world import NODE, World
from tests.support.virtual_loop import run_virtual

BUDGET_MS = 20_000
OTHER = 4


class Draining(World):
    """A registered broker that leads one partition, another that could take over."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: MetadataImage = image([broker(NODE), broker(OTHER)], led_by(NODE, NODE, OTHER))
        self.starts = 0
        self.drainer = Drainer(
            node_id=NODE,
            clock=self.clock,
            lifecycle=self.lifecycle,
            image=lambda: self.shown,
            budget_ms=BUDGET_MS,
            on_start=self.note_start,
        )

    def note_start(self) -> None:
        self.starts += 1

    def move_leadership(self) -> None:
        me = broker(NODE, is_shutting_down=True)
        self.shown = image([me, broker(OTHER)], led_by(OTHER, OTHER))


def draining(work: Callable[[Draining], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        world = Draining()
        await world.lifecycle.register()
        world.lifecycle.start()
        try:
            await work(world)
        finally:
            await world.drainer.close()
            await world.lifecycle.close()

    run_virtual(run())


def test_the_controller_is_asked_and_its_word_ends_the_drain() -> None:
    """STOP-5; whoever asks again waits for the same drain."""

    async def work(world: Draining) -> None:
        world.drainer.start("a test")
        world.drainer.start("another")
        assert world.starts == 1
        assert not await world.drainer.until_drained(2_000)
        assert world.controller.beats[-1][1].want_shut_down
        world.move_leadership()
        assert world.drainer.leaders_count == 0
        assert not await world.drainer.until_drained(2_000)
        world.controller.should_shut_down = True
        assert await world.drainer.until_drained(2_000)
        assert world.drainer.state.end is DrainEnd.MOVED

    draining(work)


def test_without_a_controller_the_budget_ends_the_drain() -> None:
    """STOP-4."""

    async def work(world: Draining) -> None:
        world.controller.is_away = True
        world.drainer.start("a test")
        assert await world.drainer.until_drained()
        assert world.drainer.state.end is DrainEnd.BUDGET_SPENT
        assert BUDGET_MS <= world.clock.monotonic_ms() < BUDGET_MS + 200

    draining(work)


def test_a_smaller_budget_holds() -> None:
    async def work(world: Draining) -> None:
        world.drainer.start("a hook")
        world.drainer.start("a signal", 1_000)
        assert await world.drainer.until_drained(1_100)

    draining(work)


def test_a_hook_waits_for_half_the_budget_at_most() -> None:
    """`operator.md` 4: it never fails, and leaves time for the rest of the stop."""

    async def work(world: Draining) -> None:
        assert await world.drainer.asked(3_000) == {"phase": "draining", "leaders": 1}
        assert 3_000 <= world.clock.monotonic_ms() < 3_200
        assert (await world.drainer.asked(None))["phase"] == "draining"
        assert world.clock.monotonic_ms() < 3_200 + BUDGET_MS // 2
        world.move_leadership()
        world.controller.should_shut_down = True
        assert await world.drainer.asked(None) == {"phase": "drained", "leaders": 0}

    draining(work)


def test_the_only_broker_is_drained_at_once() -> None:
    """STOP-7; nor is it fenced, as nobody could take over."""

    async def work(world: Draining) -> None:
        world.shown = replace(world.shown, brokers={NODE: broker(NODE)})
        world.drainer.start("a test")
        assert await world.drainer.until_drained(100)
        assert world.drainer.state.end is DrainEnd.NOTHING_TO_MOVE
        await asyncio.sleep(5)
        assert not any(beat.want_shut_down for _, beat in world.controller.beats)

    draining(work)


def test_a_second_signal_ends_the_wait() -> None:
    async def work(world: Draining) -> None:
        world.drainer.start("a test")
        world.drainer.cut_short()
        assert await world.drainer.until_drained(0)
        assert world.drainer.state.phase is DrainPhase.DRAINED

    draining(work)


def test_a_fault_of_ours_ends_the_drain_and_not_the_stop() -> None:
    """STOP-4, STOP-8: whoever waits for the drain goes on with the stop."""

    async def work(world: Draining) -> None:
        world.drainer.start("a test")
        world.shown = None  # type: ignore[assignment]
        assert await world.drainer.until_drained(2_000)

    draining(work)


def test_a_drain_can_be_taken_back() -> None:
    """Attack: a drain that anybody asked for left the broker unready until it was restarted."""

    async def work(world: Draining) -> None:
        world.drainer.undo()  # nothing to take back
        world.drainer.start("a mistake")
        world.controller.should_shut_down = True
        assert await world.drainer.until_drained(2_000)
        world.controller.should_shut_down = False
        world.drainer.undo()
        assert world.drainer.state.phase is DrainPhase.RUNNING
        await asyncio.sleep(1)
        beat = world.controller.beats[-1][1]
        assert not beat.want_shut_down
        assert not beat.want_fence
        assert not world.lifecycle.may_stop
        world.drainer.start("another")
        assert world.starts == 2
        assert not await world.drainer.until_drained(500)

    draining(work)

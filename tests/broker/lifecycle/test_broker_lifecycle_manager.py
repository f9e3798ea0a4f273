"""Registration and heartbeats, against a controller made of answers, on virtual time."""

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from barnabas_broker.lifecycle.broker_lifecycle_manager import (
    RegistrationError,
)
from barnabas_broker.metadata.image import BrokerImage, MetadataImage
from barnabas_protocol.errors import ErrorCode
from tests.broker.lifecycle.lifecycle_world import INTERVAL_MS, NODE, World
from tests.support.virtual_loop import run_virtual


def in_world(work: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        world = World()
        try:
            await work(world)
        finally:
            await world.lifecycle.close()

    run_virtual(run())


def test_a_broker_registers_and_shows_that_it_lives() -> None:
    """REG-4, REG-5: under the epoch that it was given, once an interval."""

    async def work(world: World) -> None:
        await world.lifecycle.register()
        world.lifecycle.start()
        await world.until_beats(3)
        times = [at_ms for at_ms, _ in world.controller.beats]
        assert [later - earlier for earlier, later in itertools.pairwise(times)] == [
            INTERVAL_MS,
            INTERVAL_MS,
        ]
        beat = world.controller.beats[0][1]
        assert (beat.broker_id, beat.broker_epoch, beat.want_fence) == (NODE, 11, True)

    in_world(work)


def test_the_last_life_of_a_broker_is_waited_for() -> None:
    """NODE-7: refused with 101 while the session of the id lives, which ends."""

    async def work(world: World) -> None:
        world.controller.refusals = [ErrorCode.DUPLICATE_BROKER_REGISTRATION] * 5
        await world.lifecycle.register()
        assert len(world.controller.registrations) == 6

    in_world(work)


@pytest.mark.parametrize(
    "code", [ErrorCode.INCONSISTENT_CLUSTER_ID, ErrorCode.INVALID_REGISTRATION]
)
def test_a_refusal_for_good_is_told_at_once(code: ErrorCode) -> None:
    async def work(world: World) -> None:
        world.controller.refusals = [code]
        with pytest.raises(RegistrationError):
            await world.lifecycle.register()
        assert world.clock.monotonic_ms() == 0

    in_world(work)


def test_a_broker_that_cannot_register_gives_up() -> None:
    """BOOT-12: after initial.broker.registration.timeout.ms."""

    async def work(world: World) -> None:
        world.controller.is_away = True
        with pytest.raises(RegistrationError):
            await world.lifecycle.register()
        assert 60_000 <= world.clock.monotonic_ms() < 70_000

    in_world(work)


def test_without_controller_and_arbiter_a_broker_goes_on_trying(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """CTL-13: an arbiter that is away must not end brokers; when it is back, the time counts."""

    async def work(world: World) -> None:
        world.controller.is_away = True
        away = [True]
        registering = asyncio.ensure_future(world.lifecycle.register(lambda: away[0]))
        await asyncio.sleep(600)
        assert not registering.done()
        away[0] = False
        with pytest.raises(RegistrationError):
            await registering
        assert 650_000 <= world.clock.monotonic_ms() < 680_000

    in_world(work)
    said = [one for one in caplog.messages if "the arbiter cannot be read" in one]
    assert len(said) == 1


def test_who_is_refused_gives_up_also_while_the_arbiter_is_away() -> None:
    """NODE-7: a controller that refuses is there, and is the one that counts."""

    async def work(world: World) -> None:
        world.controller.refusals = [ErrorCode.DUPLICATE_BROKER_REGISTRATION] * 1_000
        with pytest.raises(RegistrationError):
            await world.lifecycle.register(lambda: True)
        assert 60_000 <= world.clock.monotonic_ms() < 70_000

    in_world(work)


def test_a_wish_is_told_at_once_and_waited_for_in_the_metadata() -> None:
    """BOOT-2, REG-6: unfenced only when the broker itself has applied that it is."""

    async def work(world: World) -> None:
        await world.lifecycle.register()
        world.lifecycle.start()
        await world.until_beats(1)
        unfenced = asyncio.ensure_future(world.lifecycle.until_unfenced())
        await world.until_beats(2)
        at_ms, beat = world.controller.beats[1]
        assert at_ms < INTERVAL_MS
        assert not beat.want_fence
        world.controller.show(10, fenced=False)  # the broker of the last life
        world.lifecycle.image_applied()
        await asyncio.sleep(0.1)
        assert not unfenced.done()
        world.controller.show(11, fenced=False)
        world.lifecycle.image_applied()
        await unfenced
        assert world.lifecycle.is_unfenced

    in_world(work)


def test_a_drain_is_asked_about_soon_and_then_less_often() -> None:
    """STOP-5: the first follow-up after 50 ms; the answer is remembered."""

    async def work(world: World) -> None:
        await world.lifecycle.register()
        world.lifecycle.start()
        await world.until_beats(1)
        world.lifecycle.want(is_shut_down=True)
        await world.until_beats(7)
        times = [at_ms for at_ms, _ in world.controller.beats[1:]]
        gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
        assert gaps == [50, 100, 200, 400, 500]
        assert not world.lifecycle.may_stop
        world.controller.should_shut_down = True
        await world.until_beats(8)
        assert world.lifecycle.may_stop

    in_world(work)


def test_a_broker_tells_at_once_that_it_knows_of_anothers_shutdown() -> None:
    """STOP-5: that one waits until all other live brokers have applied the change."""

    async def work(world: World) -> None:
        await world.lifecycle.register()
        world.lifecycle.start()
        await world.until_beats(1)
        other = BrokerImage(7, 20, bytes(16), {}, None, (), False, is_shutting_down=True)
        world.controller.image = replace(MetadataImage.empty(), brokers={7: other}, offset=42)
        world.lifecycle.image_applied()
        await world.until_beats(2)
        at_ms, beat = world.controller.beats[1]
        assert (at_ms < INTERVAL_MS, beat.current_metadata_offset) == (True, 42)
        world.lifecycle.image_applied()  # nothing new
        await world.until_beats(3)
        assert world.controller.beats[2][0] - at_ms == INTERVAL_MS

    in_world(work)


def test_a_wish_to_stop_stays() -> None:
    async def work(world: World) -> None:
        world.lifecycle.want(is_shut_down=True)
        world.lifecycle.want(is_shut_down=False, is_fenced=False)
        assert world.lifecycle.requested_state.is_shut_down
        assert not world.lifecycle.requested_state.is_fenced

    in_world(work)


@pytest.mark.parametrize("code", [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED])
def test_a_broker_that_was_forgotten_registers_again(code: ErrorCode) -> None:
    """REG-3; the process has not ended, so its stop was not an unclean one (REG-8)."""

    async def work(world: World) -> None:
        await world.lifecycle.register()
        world.controller.refusals = [code]
        world.lifecycle.start()
        await world.until_beats(2)
        assert [one.previous_broker_epoch for one in world.controller.registrations] == [-1, 11]
        assert world.controller.beats[1][1].broker_epoch == 12
        assert not world.failures

    in_world(work)


def test_a_broker_whose_id_another_has_taken_stops_loudly() -> None:
    """NODE-7."""

    async def work(world: World) -> None:
        await world.lifecycle.register()
        world.controller.refusals = [
            ErrorCode.STALE_BROKER_EPOCH,
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
        ]
        world.lifecycle.start()
        async with asyncio.timeout(60):
            while not world.failures:
                await asyncio.sleep(0.01)
        assert isinstance(world.failures[0], RegistrationError)

    in_world(work)


def test_heartbeats_go_on_after_a_controller_was_away() -> None:
    async def work(world: World) -> None:
        await world.lifecycle.register()
        world.controller.is_away = True
        world.lifecycle.start()
        await asyncio.sleep(20)
        assert not world.controller.beats
        world.controller.is_away = False
        await world.until_beats(1)
        assert not world.failures

    in_world(work)


def test_an_offline_directory_is_told() -> None:
    async def work(world: World) -> None:
        await world.lifecycle.register()
        world.lifecycle.start()
        await world.until_beats(1)
        world.offline.append(b"d" * 16)
        world.lifecycle.wake()
        await world.until_beats(2)
        assert world.controller.beats[1][1].offline_log_dirs == [b"d" * 16]

    in_world(work)


def test_leaving_fences_at_once_and_never_fails() -> None:
    """REG-9."""

    async def work(world: World) -> None:
        await world.lifecycle.register()
        world.lifecycle.want(is_fenced=False)
        world.lifecycle.start()
        await world.until_beats(1)
        await world.lifecycle.leave(1_000)
        assert world.controller.beats[-1][1].want_fence
        world.controller.is_away = True
        await world.lifecycle.leave(1_000)

    in_world(work)


def test_fault_of_ours_does_not_end_the_heartbeats(caplog: pytest.LogCaptureFixture) -> None:
    """REG-5: a broker that stops to send them without a word would stay fenced for good."""

    async def work(world: World) -> None:
        world.lifecycle.on_answer.append(lambda answer: 1 / 0)  # type: ignore[arg-type, return-value]
        await world.lifecycle.register()
        world.lifecycle.start()
        await world.until_beats(3)
        assert world.failures == []
        assert "a heartbeat failed" in caplog.text

    in_world(work)


def test_the_lease_lasts_with_heartbeats_that_are_answered_and_is_another_after_a_loss() -> None:
    """REG-5, SHR-33: within it nobody else can have been made leader of what this broker leads."""

    async def work(world: World) -> None:
        lifecycle, controller = world.lifecycle, world.controller
        await lifecycle.register()
        assert lifecycle.lease is None
        lifecycle.want(is_fenced=False)
        lifecycle.start()
        await world.until_beats(3)
        first = lifecycle.lease
        assert first is not None
        sent_ms = controller.beats[-1][0]
        controller.is_away = True
        while lifecycle.lease == first:
            await asyncio.sleep(0.01)
        assert lifecycle.lease is None
        # Before the controller's clock, a tenth faster, says that the session is over.
        assert 5_000 < world.clock.monotonic_ms() - sent_ms < 5_500
        controller.is_away = False
        await world.until_beats(5)
        await asyncio.sleep(0)
        assert lifecycle.lease is not None
        assert lifecycle.lease != first
        controller.refusals = [ErrorCode.STALE_BROKER_EPOCH]
        leases = []
        controller.on_beat = lambda: leases.append(lifecycle.lease)
        lifecycle.wake()
        await world.until_beats(7)
        # It has registered again, and was fenced in between.
        assert leases == [first + 1, None]

    in_world(work)


def test_a_controller_that_hears_no_majority_gives_its_own_broker_no_lease() -> None:
    """SHR-33: it answers itself out of its memory, and its successor counts from that silence."""

    async def work(world: World) -> None:
        lifecycle, controller = world.lifecycle, world.controller
        await lifecycle.register()
        lifecycle.want(is_fenced=False)
        world.majority_heard_ms = heard_ms = world.clock.monotonic_ms()
        lifecycle.start()
        await world.until_beats(3)
        assert lifecycle.lease is not None
        while lifecycle.lease is not None:
            await asyncio.sleep(0.01)
        assert 5_300 < world.clock.monotonic_ms() - heard_ms < 5_500
        # It was answered all the time, and leads no more by the last answer.
        assert world.clock.monotonic_ms() - controller.beats[-1][0] < 2 * INTERVAL_MS
        lifecycle.wake()
        controller.on_beat = lambda: setattr(world, "majority_heard_ms", None)
        await world.until_beats(len(controller.beats) + 1)
        await asyncio.sleep(0)
        assert lifecycle.lease is None
        await world.until_beats(len(controller.beats) + 1)
        await asyncio.sleep(0)
        assert lifecycle.lease is not None

    in_world(work)


def test_a_broker_that_leaves_holds_no_lease() -> None:
    """REG-9, SHR-33: the controller fences it at once, and has others lead."""

    async def work(world: World) -> None:
        lifecycle = world.lifecycle
        await lifecycle.register()
        lifecycle.want(is_fenced=False)
        lifecycle.start()
        await world.until_beats(2)
        await asyncio.sleep(0)
        assert lifecycle.lease is not None
        world.controller.is_away = True
        await lifecycle.leave(100)
        assert lifecycle.lease is None

    in_world(work)

"""Random histories of one log: drawn from a seed, run, and shrunk when they find something."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import NamedTuple
from unittest.mock import patch

from barnabas_broker.log import holes, leader_epochs, log_flush
from barnabas_broker.log.errors import LogDirectoryError
from barnabas_protocol.errors import ErrorCode, KafkaError
from tests.broker.log.model.actions import KINDS, THEMES, weights_of
from tests.broker.log.model.checks import Wrong
from tests.broker.log.model.stepping_disk import StepLock
from tests.broker.log.model.world import World
from tests.support.simulated_random import SimulatedRandom
from tests.support.virtual_loop import run_virtual

LENGTH = 40
# Virtual time that no history takes, unless something in it never ends.
SECONDS_MAX = 200_000


class Action(NamedTuple):
    """One step of a history; the numbers say how."""

    name: str
    first: int
    second: int


def draw_history(seed: int, length: int = LENGTH) -> list[Action]:
    """The actions of a seed, some kinds only: so those are not rare that are rare otherwise."""
    random = SimulatedRandom(seed)
    theme = THEMES[seed % len(THEMES)]
    weights = weights_of(theme, [name for name in KINDS if random.integer(2)])
    drawn = [name for name, weight in weights.items() for _ in range(weight)]
    actions = []
    for _ in range(length):
        name = drawn[random.integer(len(drawn))]
        actions.append(Action(name, random.integer(1 << 16), random.integer(1 << 16)))
    return actions


async def _act(world: World, action: Action) -> None:
    kind = KINDS[action.name]
    if world.is_failed and not kind.is_for_failed:
        return
    if kind.waits:
        world.disk.held.clear()
    await kind.act(world, action.first, action.second)
    world.watch()


async def _run(seed: int, actions: list[Action]) -> None:
    # One in twelve, and half of the histories about moves.
    has_long_name = seed % 12 == 0 or seed % (2 * len(THEMES)) == 1
    world = World(seed, has_long_name=has_long_name)
    with patch.object(StepLock, "disk", world.disk):
        await world.start_process()
        for action in actions:
            try:
                await _act(world, action)
            except (OSError, LogDirectoryError, KafkaError) as error:
                if isinstance(error, KafkaError) and error.code != ErrorCode.KAFKA_STORAGE_ERROR:
                    raise
                world.watch()
                if not world.is_failed:
                    world.manager.take_offline(world.log.directory, OSError(5, "seen"))
                    world.is_failed = True
        if not world.is_failed:
            await world.check()
        await world.stop()
        await world.disk.kill()


async def _run_in_time(seed: int, actions: list[Action]) -> None:
    async with asyncio.timeout(SECONDS_MAX):
        await _run(seed, actions)


def run_history(seed: int, actions: list[Action] | None = None) -> str | None:
    """Run a history; what is wrong, or None."""
    logging.disable(logging.CRITICAL)
    full_bytes = (1, 2000, 16 << 20)[seed % 3]
    try:
        with (
            patch.object(leader_epochs, "threading", SimpleNamespace(Lock=StepLock)),
            patch.object(holes, "threading", SimpleNamespace(Lock=StepLock)),
            patch.object(log_flush, "FULL_FLUSH_BYTES", full_bytes),
        ):
            history = draw_history(seed) if actions is None else actions
            run_virtual(_run_in_time(seed, history))
    except Wrong as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        logging.disable(logging.NOTSET)
    return None


def shrink(seed: int, actions: list[Action]) -> list[Action]:
    """A history from which no action can be taken away without losing the finding."""
    size = len(actions) // 2
    while size:
        at = 0
        while at < len(actions):
            fewer = actions[:at] + actions[at + size :]
            if run_history(seed, fewer) is not None:
                actions = fewer
            else:
                at += size
        size //= 2
    return actions

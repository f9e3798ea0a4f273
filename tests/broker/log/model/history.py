"""Random histories of one log: drawn from a seed, run, and shrunk when they find something."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import NamedTuple
from unittest.mock import patch

from barnabas_broker.log import leader_epochs, log_flush
from barnabas_broker.log.errors import LogDirectoryError
from barnabas_protocol.errors import ErrorCode, KafkaError
from tests.broker.log.model.stepping_disk import StepLock
from tests.broker.log.model.world import World, Wrong
from tests.support.simulated_random import SimulatedRandom
from tests.support.virtual_loop import run_virtual

LENGTH = 40


class Action(NamedTuple):
    """One step of a history; the numbers say how."""

    name: str
    first: int
    second: int


# How often each is drawn, where it is drawn at all.
WEIGHTS = {
    "produce": 24,
    "append_flushed": 8,
    "follow": 3,
    "roll": 3,
    "flush": 6,
    "flush_soon": 5,
    "checkpoint": 4,
    "checkpoint_soon": 3,
    "truncate": 2,
    "retain": 3,
    "delete_records": 3,
    "compact": 3,
    "settings": 2,
    "move": 2,
    "delete_topic": 1,
    "pass_time": 3,
    "turns": 8,
    "stall": 3,
    "disk_error": 1,
    "look_up": 3,
    "check": 3,
    "kill": 3,
    "power": 3,
    "stop": 3,
    "damage": 1,
    "import": 1,
}
ALWAYS = {"produce", "turns", "check"}
# What a history waits for, so that threads may not stand still for ever.
WAITING = {"append_flushed", "flush", "checkpoint", "disk_error"}
# Virtual time that no history takes, unless something in it never ends.
SECONDS_MAX = 200_000


def draw_history(seed: int, length: int = LENGTH) -> list[Action]:
    """The actions of a seed, some kinds only: so those are not rare that are rare otherwise."""
    random = SimulatedRandom(seed)
    names = [name for name in WEIGHTS if name in ALWAYS or random.integer(2)]
    total = sum(WEIGHTS[name] for name in names)
    actions = []
    for _ in range(length):
        at = random.integer(total)
        for name in names:
            at -= WEIGHTS[name]
            if at < 0:
                break
        actions.append(Action(name, random.integer(1 << 16), random.integer(1 << 16)))
    return actions


async def _act(world: World, action: Action) -> None:
    name, first, second = action
    log = world.log
    if world.is_failed and name not in ("kill", "power", "stop"):
        return
    if name in WAITING:
        world.disk.held.clear()
    match name:
        case "produce":
            world.produce(first % 9, second % 120)
        case "append_flushed":
            for _ in range(1 + first % 6):
                world.produce(0, second % 120)
                await world._guarded(log.flush())
                world.watch()
                if world.is_failed:
                    break
        case "follow":
            gap = (0, 0, 1, 2, 2, 3)[first % 6]
            if gap == 3 and second % 4:
                gap = 1
            world.follow(gap, second % 120)
        case "roll":
            log.roll()
        case "flush":
            await world._guarded(log.flush())
        case "flush_soon":
            world._spawn(log.flush())
        case "checkpoint":
            await world._guarded(world.checkpoint())
        case "checkpoint_soon":
            world._spawn(world.checkpoint())
        case "truncate":
            await world.truncate(first % (world.end + 1))
        case "retain":
            world._spawn(log.delete_old_segments(world.clock.wall_ms()))
        case "delete_records":
            offset = min(world.start + first % 30, log.high_watermark)
            if "delete" in world.config.cleanup_policy:
                world.may_delete_below = max(world.may_delete_below, offset)
                world._spawn(log.delete_records(offset))
        case "compact":
            if log.config.is_compacted:
                world._spawn(world.compact())
        case "settings":
            world.config = world._draw_config()
            log.update_config(world.config)
        case "move":
            if world.name not in world.moves.moving:
                world.moves.move(world.name, ("/a", "/b")[first % 2])
        case "delete_topic":
            await world.delete_topic()
        case "pass_time":
            await asyncio.sleep((0.5, 5, 1200, 4000)[first % 4])
        case "turns":
            for _ in range(first % 40):
                await asyncio.sleep(0)
        case "stall":
            world.disk.held.update(world.disk.workers)
        case "disk_error":
            operation = ("sync", "append", "write_at", "rename", "open", "truncate")[first % 6]
            world.disk.fail(operation, world.name.topic)
        case "look_up":
            world._spawn(log.offset_for_timestamp(world.clock.wall_ms() - first * 100, world.end))
        case "check":
            await world.check()
        case "kill":
            await world.crash(0)
        case "power":
            await world.crash(1 + first % 2)
        case "stop":
            await world.stop()
        case "damage":
            await world.stop(world.lose_epochs)
        case "import":
            await world.stop(world.take_out_and_import)
    world.watch()


async def _run(seed: int, actions: list[Action]) -> None:
    world = World(seed)
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

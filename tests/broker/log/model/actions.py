"""What may happen in a history, and how often."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

from barnabas_protocol.ids import ZERO_UUID
from tests.broker.log.model import producing
from tests.broker.log.model.world import World

Act = Callable[[World, int, int], Awaitable[None]]


class Kind(NamedTuple):
    """One kind of action: how often it is drawn, what it does with two numbers, what it needs.

    `waits`: the history waits for it, so that threads may not stand still for ever.
    """

    weight: int
    act: Act
    waits: bool
    is_for_failed: bool


KINDS: dict[str, Kind] = {}


def _kind(weight: int, *, waits: bool = False, is_for_failed: bool = False) -> Callable[[Act], Act]:
    def add(act: Act) -> Act:
        KINDS[act.__name__] = Kind(weight, act, waits, is_for_failed)
        return act

    return add


# What is written.


@_kind(24)
async def produce(world: World, first: int, second: int) -> None:
    producing.produce(world, first % 9, second % 120)


@_kind(8)
async def transact(world: World, first: int, second: int) -> None:
    """A transaction from beginning to end, or the end of one."""
    producing.produce(world, 5, second % 120)
    producing.produce(world, 7 + first % 2, second % 120)


@_kind(8, waits=True)
async def append_flushed(world: World, first: int, second: int) -> None:
    for _ in range(1 + first % 6):
        producing.produce(world, (0, 3, 5, 7)[second % 4], second % 120)
        await world.guarded(world.log.flush())
        world.watch()
        if world.is_failed:
            break


@_kind(3)
async def follow(world: World, first: int, second: int) -> None:
    gap = (0, 0, 1, 2, 2, 3)[first % 6]
    producing.follow(world, 1 if gap == 3 and second % 4 else gap, second % 120)


@_kind(2)
async def repeat(world: World, first: int, second: int) -> None:
    producing.repeat(world, first, second)


@_kind(2)
async def send_refused(world: World, first: int, second: int) -> None:
    producing.send_refused(world, first)


@_kind(2)
async def begin_epoch(world: World, first: int, second: int) -> None:
    producing.begin_epoch(world, first % 3)


@_kind(2)
async def lead(world: World, first: int, second: int) -> None:
    """A leadership begins, as a partition notes it."""
    world.epoch += 1 + first % 2
    world.log.leader_epochs.assign(world.epoch, world.log.log_end_offset)


@_kind(4)
async def commit(world: World, first: int, second: int) -> None:
    """The followers have some of the batches that are new."""
    behind = [batch.end for batch in world.batches if batch.end > world.high_watermark]
    if behind:
        world.commit(behind[first % len(behind)])


# What becomes of it.


@_kind(3)
async def roll(world: World, first: int, second: int) -> None:
    world.log.roll()


@_kind(6, waits=True)
async def flush(world: World, first: int, second: int) -> None:
    await world.guarded(world.log.flush())


@_kind(5)
async def flush_soon(world: World, first: int, second: int) -> None:
    world.spawn(world.log.flush())


@_kind(2)
async def flush_held(world: World, first: int, second: int) -> None:
    """A flush whose thread stands still on its way."""
    world.spawn(world.log.flush())
    for _ in range(first % 8):
        await asyncio.sleep(0)
    world.disk.held.update(world.disk.workers)


@_kind(4, waits=True)
async def checkpoint(world: World, first: int, second: int) -> None:
    await world.guarded(world.checkpoint())


@_kind(3)
async def checkpoint_soon(world: World, first: int, second: int) -> None:
    world.spawn(world.checkpoint())


@_kind(2)
async def truncate(world: World, first: int, second: int) -> None:
    await world.truncate(_where_to_cut(world, first, second))


@_kind(2)
async def truncate_and_crash(world: World, first: int, second: int) -> None:
    await world.truncate_and_crash(_where_to_cut(world, first, second), second % 3)


def _where_to_cut(world: World, first: int, second: int) -> int:
    low, end = 0, world.end
    if world.is_replicated and second % 4:
        low = world.high_watermark
    elif second % 3 == 0 and world.start:
        end = world.start - 1  # as one does whose leader has less than it has deleted
    return low + first % (end + 1 - low)


@_kind(3)
async def retain(world: World, first: int, second: int) -> None:
    world.retained_ms = max(world.retained_ms, world.clock.wall_ms())
    world.spawn(world.log.delete_old_segments(world.clock.wall_ms()))


@_kind(3)
async def delete_records(world: World, first: int, second: int) -> None:
    offset = min(world.start + first % 30, world.log.high_watermark)
    if "delete" in world.config.cleanup_policy:
        world.may_delete_below = max(world.may_delete_below, offset)
        world.spawn(world.log.delete_records(offset))


@_kind(3)
async def compact(world: World, first: int, second: int) -> None:
    if world.log.config.is_compacted:
        world.spawn(world.compact())


@_kind(2)
async def settings(world: World, first: int, second: int) -> None:
    world.config = world.draw_config()
    world.log.update_config(world.config)


@_kind(2)
async def move(world: World, first: int, second: int) -> None:
    if world.name not in world.moves.moving:
        world.was_moved = True
        world.moves.move(world.name, ("/a", "/b")[first % 2])
        if world.name in world.moves.requested_directories or world.name in world.moves.moving:
            world.remembered_directory = ZERO_UUID


@_kind(1)
async def delete_topic(world: World, first: int, second: int) -> None:
    await world.delete_topic()


# Who looks at it.


@_kind(3)
async def look_up(world: World, first: int, second: int) -> None:
    world.spawn(world.look_up_meanwhile(world.clock.wall_ms() - first * 100))


@_kind(4)
async def read(world: World, first: int, second: int) -> None:
    span = world.log.log_end_offset - world.start
    offset = world.start + first % (min(span, 200) + 1)
    world.spawn(world.read_meanwhile(offset, (1, 500, 100_000)[second % 3]))


@_kind(4)
async def read_committed(world: World, first: int, second: int) -> None:
    """Mostly near the start of the log: what goes while it is read, goes there."""
    span = max(world.log.last_stable_offset - world.start, 0)
    reach = min(span, 200 if second % 3 == 0 else 5)
    world.spawn(world.read_committed_meanwhile(world.start + first % (reach + 1)))


@_kind(3)
async def check(world: World, first: int, second: int) -> None:
    await world.check()


# What comes in between.


@_kind(3)
async def pass_time(world: World, first: int, second: int) -> None:
    await asyncio.sleep((0.5, 5, 1200, 4000)[first % 4])


@_kind(1)
async def set_clock(world: World, first: int, second: int) -> None:
    """The machine's clock jumps, back or ahead."""
    world.clock.wall_offset_ms += (-3_600_000, -1000, 5000, 90_000_000)[first % 4]


@_kind(8)
async def turns(world: World, first: int, second: int) -> None:
    for _ in range(first % 40):
        await asyncio.sleep(0)


@_kind(3)
async def stall(world: World, first: int, second: int) -> None:
    """The threads that are at work stand still for a while."""
    world.disk.held.update(world.disk.workers)


@_kind(1, waits=True)
async def disk_error(world: World, first: int, second: int) -> None:
    operation = ("sync", "append", "write_at", "rename", "open", "truncate")[first % 6]
    world.disk.fail(operation, world.name.topic)


@_kind(3, is_for_failed=True)
async def kill(world: World, first: int, second: int) -> None:
    await world.crash(0)


@_kind(3, is_for_failed=True)
async def power(world: World, first: int, second: int) -> None:
    await world.crash(1 + first % 2)


@_kind(3, is_for_failed=True)
async def stop(world: World, first: int, second: int) -> None:
    await world.stop()


@_kind(1, is_for_failed=True)
async def stop_cut_short(world: World, first: int, second: int) -> None:
    await world.crash_while_stopping(first % 60, second % 3)


@_kind(1)
async def damage(world: World, first: int, second: int) -> None:
    await world.stop(world.lose_epochs)


@_kind(1)
async def take_over(world: World, first: int, second: int) -> None:
    """Kafka's folder is imported."""
    await world.stop(world.take_out_and_import)


ALWAYS = ("produce", "turns", "check")
# What some histories are about: these are drawn more often, and always among what may happen.
THEMES: tuple[dict[str, int], ...] = (
    {},
    {"move": 12, "append_flushed": 12, "kill": 6, "power": 8, "turns": 20},
    {"transact": 20, "power": 8, "kill": 4, "flush": 3},
    {"delete_topic": 8, "flush_held": 12, "lead": 8, "kill": 6, "check": 6, "stall": 4},
    {"delete_records": 8, "checkpoint": 8, "truncate": 8, "kill": 6, "append_flushed": 8},
    {"compact": 10, "settings": 8, "flush": 8, "turns": 16, "kill": 6, "checkpoint": 6},
    {"follow": 12, "roll": 6, "power": 5, "kill": 5},
    {"retain": 10, "pass_time": 8, "append_flushed": 10, "stop": 6},
    {"truncate_and_crash": 10, "power": 8, "roll": 10, "append_flushed": 12, "checkpoint": 8},
    {"delete_topic": 8, "compact": 12, "power": 8, "settings": 8, "flush": 6, "roll": 5},
    {"transact": 20, "read_committed": 14, "retain": 8, "pass_time": 8, "roll": 8, "commit": 8},
)


def weights_of(theme: dict[str, int], chosen: Iterable[str]) -> dict[str, int]:
    """How often each kind is drawn in a history with a theme and some other kinds."""
    names = {*ALWAYS, *theme, *chosen}
    return {name: theme.get(name, KINDS[name].weight) for name in KINDS if name in names}

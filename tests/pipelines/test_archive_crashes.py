"""An archive holds every record once, whichever step of whichever run is the last one."""

import contextlib
from collections import Counter

import pytest

from tests.pipelines.archive_world import ArchiveWorld
from tests.pipelines.memory_files import Killed, visible_rows

STORES = pytest.mark.parametrize("renames", [True, False], ids=["renames", "copies"])


def check_readers(world: ArchiveWorld) -> None:
    """What is seen at any moment: nothing twice, and with renaming only whole batches."""
    rows = visible_rows(world.store)
    doubled = [row for row, count in Counter(rows).items() if count > 1]
    assert not doubled
    if world.store.renames:
        reached = dict(rows)
        wanted = [row for row in world.records if row[1] <= reached.get(row[0], -1)]
        assert rows == wanted, "a reader sees a hole"


def killed_run(world: ArchiveWorld, step: int) -> bool:
    """Run a driver that dies at this step from now on; whether it did."""
    world.store.last_step = world.store.steps + step
    world.checkpoint.last_step = None
    try:
        world.run()
    except Killed:
        return True
    finally:
        world.store.last_step = None
    return False


@STORES
def test_a_kill_at_any_single_step_loses_and_doubles_nothing(renames: bool) -> None:
    """Each step of writing, publishing and cleaning up is once the last one."""
    for step in range(1000):
        world = ArchiveWorld(renames=renames, seed=7)
        world.store.watch = lambda world=world: check_readers(world)
        for _ in range(8):
            world.produce()
        if not killed_run(world, step):
            assert step > 20, "the story is too short to tell anything"
            return
        world.run()
        assert visible_rows(world.store) == sorted(world.records), f"step {step}"
    pytest.fail("the story does not end")


@STORES
def test_any_story_of_kills_and_lost_checkpoints_ends_with_every_record_once(renames: bool) -> None:
    """Kills while cleaning up after kills, commits that are lost, checkpoints that begin anew."""
    for seed in range(300):
        world = ArchiveWorld(renames=renames, seed=seed)
        world.store.watch = lambda world=world: check_readers(world)
        for _ in range(8):
            world.produce()
            killed_run(world, world.random.randrange(40))
            damage_checkpoint(world)
        world.run()
        assert visible_rows(world.store) == sorted(world.records), f"seed {seed}"
        assert world.store.names("_archive/staging") == (), f"seed {seed}"


def damage_checkpoint(world: ArchiveWorld) -> None:
    """Now and then take away the last commit, or everything."""
    draw = world.random.random()
    if draw < 0.15:
        world.checkpoint.delete("offsets")
        world.checkpoint.delete("commits")
    elif draw < 0.4:
        commits = sorted(map(int, world.checkpoint.names("commits")))
        if commits:
            world.checkpoint.delete(f"commits/{commits[-1]}")


def test_a_kill_between_publishing_and_the_commit_adds_nothing_when_done_again() -> None:
    """Spark gives the batch again, because it does not know that it is there."""
    world = ArchiveWorld(renames=True, seed=1)
    world.log_ends = {0: 3, 1: 2}
    with contextlib.suppress(Killed):
        world.checkpoint.last_step = 1
        world.run()
    assert world.checkpoint.names("commits") == ()
    assert visible_rows(world.store)
    before = dict(world.store.contents)
    world.checkpoint.last_step = None
    world.run()
    assert "batch 0 was archived already" in world.said
    assert {path: world.store.contents[path] for path in before} == before
    assert visible_rows(world.store) == sorted(world.records)

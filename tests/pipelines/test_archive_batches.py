"""What an archive refuses: second writers, other topics under the old name, holes."""

import pytest

from barnabas_pipelines.archive.directory import (
    ArchiveDamagedError,
    ArchiveDirectory,
    SecondWriterError,
)
from barnabas_pipelines.archive.reading import manifests, summary
from barnabas_pipelines.errors import DataLossError, TopicGoneError
from tests.pipelines.archive_world import TOPIC, ArchiveWorld
from tests.pipelines.memory_files import visible_rows


def world_with_archive() -> ArchiveWorld:
    """Some records, all of them archived."""
    world = ArchiveWorld(renames=True, seed=3)
    world.log_ends = {0: 5, 1: 4}
    world.run()
    return world


def test_the_newest_manifest_tells_what_all_batches_hold() -> None:
    """An archive of years has too many to be read for that."""
    world = world_with_archive()
    world.log_ends = {0: 6, 1: 9}
    world.run()
    directory = ArchiveDirectory(world.store)
    newest = directory.last()
    assert newest is not None
    assert newest.totals == summary(manifests(directory))
    assert newest.totals.record_count == 15


def test_of_two_writers_only_one_publishes() -> None:
    """A driver that was believed dead may still be at work when the next one starts."""
    world = world_with_archive()
    old, new = world.writer(), world.writer()
    world.log_ends = {0: 7, 1: 4}
    rows = [(0, 5), (0, 6)]
    new(rows, 90)
    before = visible_rows(world.store)
    with pytest.raises(SecondWriterError, match="only one job"):
        old(rows, 90)
    assert visible_rows(world.store) == before == sorted(world.records)


def test_a_topic_that_was_made_anew_is_refused() -> None:
    """Its offsets begin at 0 again: they would be taken for those that are archived."""
    world = world_with_archive()
    world.topic_ids = {TOPIC: "id-2"}
    with pytest.raises(TopicGoneError, match=r"made anew.*another folder"):
        world.writer()([(0, 0)], 1)
    assert visible_rows(world.store) == sorted(world.records)


def test_a_topic_without_id_is_taken_by_its_name() -> None:
    """Brokers of old have none."""
    world = world_with_archive()
    world.topic_ids = {TOPIC: None}
    world.writer()([(0, 5)], 90)
    assert (0, 5) in visible_rows(world.store)


def test_a_checkpoint_that_is_ahead_of_the_archive_is_refused() -> None:
    """Somebody restored the archive, or took its newest batches away: they would be missing."""
    world = world_with_archive()
    world.checkpoint.write("offsets/89", f'v1\n{{}}\n{{"{TOPIC}": {{"0": 8, "1": 4}}}}')
    with pytest.raises(DataLossError, match=r"offset 8 of orders-0.*ends at 5.*3 offsets"):
        world.writer()([(0, 8)], 90)
    assert visible_rows(world.store) == sorted(world.records)


def test_offsets_without_records_are_no_hole() -> None:
    """Ends of transactions take offsets; the next batch begins behind them."""
    world = ArchiveWorld(renames=True, seed=5)
    world.log_ends = {0: 3, 1: 0}
    world.holes = {(0, 2)}
    world.run()
    world.log_ends = {0: 5, 1: 1}
    world.run()
    assert visible_rows(world.store) == [(0, 0), (0, 1), (0, 3), (0, 4), (1, 0)]


def test_a_batch_whose_files_were_taken_away_is_told_and_kept() -> None:
    """Without an attempt that was staged for it, no crash explains it: nothing is deleted."""
    world = world_with_archive()
    newest = max(world.store.names(), key=lambda name: int(name.partition("=")[2] or -1))
    gone = next(path for path in world.store.contents if path.startswith(f"{newest}/dt="))
    del world.store.contents[gone]
    left = dict(world.store.contents)
    with pytest.raises(ArchiveDamagedError, match="not whole"):
        world.writer()
    assert world.store.contents == left

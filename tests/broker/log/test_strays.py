"""Strays: partition directories that are kept until an operator restores or deletes them."""

import pytest

from barnabas_broker.env.disk import RealDisk
from barnabas_broker.env.randomness import SystemRandom
from barnabas_broker.log.manager.strays import StrayRefusedError, delete, list_strays, restore
from tests.broker.log.manager_fixtures import (
    TOPIC_ID,
    append,
    crash,
    manager_over,
    partition,
    records_of,
    run_with,
    topic_config,
)

LONG = "t" * 249


async def fill(manager, topic="t"):
    log = manager.create(partition(topic), TOPIC_ID, topic_config())
    for number in range(5):
        append(log, (b"k", b"%d" % number))
    await log.delete_records(2)


async def put_aside(path):
    manager = manager_over(path)
    await manager.load(lambda topic, topic_id: None)
    await manager.close()
    crash(manager)


def strayed(path, topic="t"):
    """A log directory with one stray, and that stray."""
    import asyncio

    run_with(manager_over(path), lambda manager: fill(manager, topic))
    asyncio.run(put_aside(path))
    disk = manager_over(path).disk
    (stray,) = list_strays(disk, str(path))
    return disk, stray


@pytest.mark.parametrize("topic", ["t", LONG])
def test_a_restored_stray_has_all_records_and_its_log_start(tmp_path, topic):
    """TOP-15: also where the directory's name could not hold the topic's."""
    disk, stray = strayed(tmp_path, topic)
    assert (stray.topic_partition, stray.topic_id) == (partition(topic), TOPIC_ID)
    assert stray.reason == "is not assigned to this broker"
    assert restore(disk, stray, TOPIC_ID, topic_config(), 0) == 5
    assert list_strays(disk, str(tmp_path)) == []

    async def read(manager):
        log = manager.logs[partition(topic)]
        return log.log_start_offset, log.topic_id, await records_of(log)

    start, topic_id, records = run_with(manager_over(tmp_path), read)
    assert (start, topic_id) == (2, TOPIC_ID)
    assert records == [(n, b"k", b"%d" % n) for n in range(2, 5)]


def test_a_stray_is_not_restored_over_a_log(tmp_path):
    """The broker may have another log of the partition by now."""
    disk, stray = strayed(tmp_path)
    (tmp_path / "t-0").mkdir()
    with pytest.raises(StrayRefusedError, match="another log of this partition"):
        restore(disk, stray, TOPIC_ID, topic_config(), 0)
    assert list_strays(disk, str(tmp_path)) == [stray]


def test_a_deletion_that_was_interrupted_is_ended_by_the_next_start(tmp_path):
    """Half a partition is nothing to be restored."""
    disk, stray = strayed(tmp_path)

    class Killed(RealDisk):
        def remove_tree(self, path):
            """The process dies first."""

    delete(Killed(), SystemRandom(), stray)
    assert list_strays(disk, str(tmp_path)) == []

    async def clean(manager):
        await manager.removals.remove_due(2**62)
        return list(tmp_path.glob("t-0*"))

    assert run_with(manager_over(tmp_path), clean) == []


def test_a_stray_without_a_note_is_told_by_its_name(tmp_path):
    """One of an older release, or the note was lost with the power."""
    disk, stray = strayed(tmp_path)
    (tmp_path / stray.name / "stray.json").write_bytes(b"")
    (found,) = list_strays(disk, str(tmp_path))
    assert (found.topic_partition, found.topic_id, found.reason) == (partition("t"), TOPIC_ID, "")
    assert found.is_name_whole

"""The log manager: identity, placement, stops and starts, strays, deletion, failing directories."""

import asyncio
import errno
from functools import partial

import pytest

from barnabas_broker.env.disk import RealDisk
from barnabas_broker.log.checkpoints import CheckpointError
from barnabas_broker.log.manager.log_directory import LogDirectoryLockedError
from barnabas_broker.log.manager.log_identity import OWN_FILE, IdentityError, NoLogDirectoryError
from barnabas_broker.metadata.metadata_log import METADATA_PARTITION
from barnabas_broker.metadata.quorum.promise_file import PROMISE_FILE
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import uuid_to_text
from barnabas_protocol.records.record import Record, encode_batch
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


async def nothing(manager):
    return manager


def test_an_empty_directory_is_formatted_once(tmp_path):
    """NODE-3, NODE-6: every directory gets the same cluster id and an id of its own."""
    a, b = tmp_path / "a", tmp_path / "b"
    first = run_with(manager_over(a, b), nothing)
    ids = [directory.directory_id for directory in first.directories]
    assert len(set(ids)) == 2
    again = run_with(manager_over(a, b), nothing)
    assert again.cluster_id == first.cluster_id
    assert [directory.directory_id for directory in again.directories] == ids
    assert f"cluster.id={first.cluster_id}\n" in (a / "meta.properties").read_text()


def refused(manager):
    with pytest.raises(IdentityError) as caught:
        manager.open_directories()
    crash(manager)
    return str(caught.value)


def test_another_node_id_or_cluster_id_is_refused(tmp_path):
    """NODE-2; and NODE-3: no configured id takes the one on disk."""
    cluster_id = run_with(manager_over(tmp_path), nothing).cluster_id
    assert "belong to node 1" in refused(manager_over(tmp_path, node_id=2))
    other = uuid_to_text(bytes(range(16)))
    assert cluster_id in refused(manager_over(tmp_path, cluster_id=other))
    assert run_with(manager_over(tmp_path, node_id=-1), nothing).node_id == 1
    assert "node.id is not set" in refused(manager_over(tmp_path / "new", node_id=-1))


def test_directories_of_different_nodes_are_refused(tmp_path):
    """NODE-1."""
    run_with(manager_over(tmp_path / "a"), nothing)
    run_with(manager_over(tmp_path / "b", node_id=2), nothing)
    both = tmp_path / "a", tmp_path / "b"
    assert "different node ids" in refused(manager_over(*both))


def test_partitions_without_an_identity_are_refused(tmp_path):
    """NODE-6: an unformatted directory with data in it is somebody else's."""
    (tmp_path / "topic-0").mkdir()
    assert "no meta.properties" in refused(manager_over(tmp_path))


KAFKA = {
    "kraft": "node.id=1\ndirectory.id=BUroyANRPdZhw_fWuBLqeQ\nversion=1\ncluster.id=4L6g3nShT\n",
    "zookeeper": "version=0\nbroker.id=1\ncluster.id=4L6g3nShT\n",
}


def contents(directory):
    """All files but the lock, with what is in them."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and path.name != ".lock"
    }


@pytest.mark.parametrize("name", ["orders-0", "orders-0." + 32 * "a" + "-delete"])
@pytest.mark.parametrize("kind", KAFKA)
def test_a_directory_of_apache_kafka_is_refused_and_not_changed(tmp_path, kind, name):
    """Without its metadata log, all of it would be stray; the way is to import."""
    theirs, new = tmp_path / "theirs", tmp_path / "new"
    theirs.mkdir()
    (theirs / "meta.properties").write_text(KAFKA[kind])
    (theirs / ".kafka_cleanshutdown").write_text("")
    (theirs / "__cluster_metadata-0").mkdir()
    (theirs / "__cluster_metadata-0" / "quorum-state").write_text("{}")
    (theirs / name).mkdir()
    (theirs / name / "00000000000000000000.log").write_bytes(b"records")
    before = contents(theirs)
    assert "barnabas log import" in refused(manager_over(theirs, new))
    assert contents(theirs) == before
    assert contents(new) == {}


def test_a_directory_of_a_release_before_the_mark_is_taken_for_ours(tmp_path):
    """Its metadata log says so; from then on the mark does."""
    a, b = tmp_path / "a", tmp_path / "b"
    cluster_id = run_with(manager_over(a, b), fill_both(b)).cluster_id
    for directory in (a, b):
        meta = directory / "meta.properties"
        assert "barnabas.format=1\n" in meta.read_text()
        meta.write_text(meta.read_text().replace("barnabas.format=1\n", ""))
    assert f"{'-'.join(map(str, METADATA_PARTITION))}/{PROMISE_FILE}" == OWN_FILE
    (a / OWN_FILE).parent.mkdir()
    (a / OWN_FILE).write_text("0\n1\n")
    ids = {}
    for _ in range(2):
        manager = manager_over(a, b)
        manager.open_directories()
        assert manager.cluster_id == cluster_id
        ids = ids or {one.path: one.directory_id for one in manager.directories}
        assert ids == {one.path: one.directory_id for one in manager.directories}
        crash(manager)
        (a / OWN_FILE).unlink(missing_ok=True)


def fill_both(directory):
    async def work(manager):
        manager.create(partition("t"), TOPIC_ID, topic_config(), str(directory))
        return manager

    return work


@pytest.mark.parametrize("content", ["", "#\n"])
def test_an_empty_identity_is_refused_and_not_changed(tmp_path, content):
    """NODE-2: it is not that of a new directory."""
    run_with(manager_over(tmp_path), fill)
    (tmp_path / "meta.properties").write_text(content)
    before = contents(tmp_path)
    manager = manager_over(tmp_path)
    with pytest.raises(CheckpointError, match="it is empty"):
        manager.open_directories()
    crash(manager)
    assert contents(tmp_path) == before


def test_a_directory_of_a_newer_release_is_refused(tmp_path):
    """What its marks mean is not known here."""
    run_with(manager_over(tmp_path), fill)
    meta = tmp_path / "meta.properties"
    meta.write_text(meta.read_text().replace("barnabas.format=1", "barnabas.format=2"))
    manager = manager_over(tmp_path)
    with pytest.raises(CheckpointError, match="newer release"):
        manager.open_directories()
    crash(manager)


def test_a_start_that_is_refused_changes_nothing(tmp_path):
    """The next one finds a clean stop as it was left."""
    run_with(manager_over(tmp_path), fill)
    before = contents(tmp_path)
    refused(manager_over(tmp_path, node_id=2))
    refused(manager_over(tmp_path, cluster_id="another"))
    assert contents(tmp_path) == before


def test_a_second_broker_on_the_same_directory_is_refused(tmp_path):
    """formats.md 5: `.lock` is held while a broker runs."""
    first = manager_over(tmp_path)
    first.open_directories()
    second = manager_over(tmp_path)
    with pytest.raises(LogDirectoryLockedError):
        second.open_directories()
    crash(first)
    second.open_directories()
    crash(second)


def test_a_new_log_goes_where_the_fewest_partitions_are(tmp_path):
    """TOP-16, LOG-14: and its topic id is on disk before the first batch."""

    async def work(manager):
        for number in range(4):
            manager.create(partition("t", number), TOPIC_ID, topic_config())
        named = manager.create(
            partition("u"), TOPIC_ID, topic_config(), directory=str(tmp_path / "b")
        )
        assert named.directory == str(tmp_path / "b" / "u-0")
        return [len(directory.logs) for directory in manager.directories]

    counts = run_with(manager_over(tmp_path / "a", tmp_path / "b"), work)
    assert sorted(counts) == [2, 3]
    found = sorted(path.parent.name for path in tmp_path.glob("*/*/partition.metadata"))
    assert found == ["t-0", "t-1", "t-2", "t-3", "u-0"]


def test_a_log_of_another_topic_id_is_refused(tmp_path):
    """TOP-14: INCONSISTENT_TOPIC_ID (103)."""

    async def work(manager):
        log = manager.create(partition("t"), TOPIC_ID, topic_config())
        assert manager.create(partition("t"), TOPIC_ID, topic_config()) is log
        with pytest.raises(KafkaError) as caught:
            manager.create(partition("t"), bytes(15) + b"x", topic_config())
        assert caught.value.code == ErrorCode.INCONSISTENT_TOPIC_ID

    run_with(manager_over(tmp_path), work)


def test_a_log_without_a_topic_id_gets_it_from_its_topic(tmp_path):
    """LOG-14: partitions that a broker before topic ids wrote."""

    async def work(manager):
        log = manager.create(partition("t"), TOPIC_ID, topic_config())
        append(log, (b"k", b"v"))

    run_with(manager_over(tmp_path), work)
    (tmp_path / "t-0" / "partition.metadata").unlink()

    async def again(manager):
        log = manager.create(partition("t"), TOPIC_ID, topic_config())
        return log.topic_id, log.log_end_offset

    assert run_with(manager_over(tmp_path), again) == (TOPIC_ID, 1)
    assert (tmp_path / "t-0" / "partition.metadata").exists()


async def fill(manager):
    log = manager.create(partition("t"), TOPIC_ID, topic_config())
    append(log, (b"k", b"1"))
    append(log, (b"k", b"2"), (b"l", b"3"))


async def read_back(manager):
    log = manager.get(partition("t"))
    assert log.topic_id == TOPIC_ID
    return await records_of(log), log.high_watermark, log.recovery_point


RECORDS = [(0, b"k", b"1"), (1, b"k", b"2"), (2, b"l", b"3")]


def test_a_clean_stop_leaves_the_marker_and_all_records(tmp_path):
    """REC-1, REC-4: marker with the broker epoch, removed at the next start."""
    run_with(manager_over(tmp_path), fill)
    assert '"brokerEpoch":7' in (tmp_path / ".kafka_cleanshutdown").read_text()
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\nt 0 3\n"
    assert (tmp_path / "replication-offset-checkpoint").read_text() == "0\n1\nt 0 3\n"

    async def work(manager):
        assert not (tmp_path / ".kafka_cleanshutdown").exists()
        assert manager.directories[0].was_clean
        assert manager.directories[0].clean_broker_epoch == 7
        return await read_back(manager)

    assert run_with(manager_over(tmp_path), work) == (RECORDS, 3, 3)


def test_after_a_crash_the_logs_are_recovered(tmp_path):
    """REC-1: no marker, so every segment from the recovery point on is scanned."""
    run_with(manager_over(tmp_path), fill, is_clean_stop=False)
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    with open(tmp_path / "t-0" / "00000000000000000000.log", "ab") as file:
        file.write(b"half a batch")
    records, _, _ = run_with(manager_over(tmp_path), read_back, is_clean_stop=False)
    assert records == RECORDS


def test_a_crash_while_loading_leaves_no_marker(tmp_path):
    """REC-4: the marker goes before the first log is written to; only a full load brings it back.

    A start that is refused before that leaves it.
    """
    run_with(manager_over(tmp_path), fill)
    manager = manager_over(tmp_path)
    manager.open_directories()
    assert (tmp_path / ".kafka_cleanshutdown").exists()

    async def begin():
        await manager.begin_writing()
        await manager.close(7)

    asyncio.run(begin())
    crash(manager)
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_a_partition_that_is_not_ours_is_put_aside(tmp_path):
    """TOP-15: renamed `-stray`, never served, and kept over any number of starts."""
    run_with(manager_over(tmp_path), fill)

    async def main():
        for put_aside in (1, 0):
            manager = manager_over(tmp_path, log_segment_delete_delay_ms="0")
            await manager.load(lambda topic, topic_id: None)
            assert manager.logs == {}
            assert manager.put_aside_count == put_aside
            assert manager.strays == {str(tmp_path): 1}
            (stray,) = tmp_path.glob("t-0.*-stray")
            await manager.removals.remove_due(2**62)
            assert (stray / "00000000000000000000.log").stat().st_size > 0
            await manager.close()
            crash(manager)

    asyncio.run(main())


def test_the_id_on_disk_decides_who_owns_a_partition(tmp_path):
    """TOP-15: the callback gets the id in `partition.metadata`."""
    run_with(manager_over(tmp_path), fill)
    asked = []

    async def main():
        manager = manager_over(tmp_path)
        await manager.load(lambda *question: asked.append(question) or topic_config())
        await manager.close()
        crash(manager)

    asyncio.run(main())
    assert asked == [("t", TOPIC_ID)]


def test_a_deleted_log_frees_its_name_at_once_and_its_files_later(tmp_path):
    """TOP-14: a topic of the same name and a new id starts empty beside the old files."""

    async def work(manager):
        log = manager.create(partition("t"), TOPIC_ID, topic_config(file_delete_delay_ms="60000"))
        append(log, (b"k", b"v"))
        await manager.delete(partition("t"))
        await manager.delete(partition("t"))
        assert manager.get(partition("t")) is None
        (old,) = tmp_path.glob("t-0.*-delete")
        again = manager.create(partition("t"), bytes(15) + b"x", topic_config())
        assert again.log_end_offset == 0
        now_ms = manager.clock.monotonic_ms()
        assert await manager.removals.remove_due(now_ms) == []
        assert old.exists()
        assert await manager.removals.remove_due(now_ms + 61_000) == []
        assert not old.exists()
        with pytest.raises(KafkaError) as caught:
            append(log, (b"k", b"v"))
        assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR

    run_with(manager_over(tmp_path), work)


def test_directories_renamed_before_a_crash_are_removed_after_it(tmp_path):
    """TOP-14: the marked name is all that is needed to finish the deletion."""

    async def delete(manager):
        manager.create(partition("t"), TOPIC_ID, topic_config())
        await manager.delete(partition("t"))

    run_with(manager_over(tmp_path), delete, is_clean_stop=False)

    async def finish(manager):
        assert manager.logs == {}
        await manager.removals.remove_due(2**62)
        return list(tmp_path.glob("t-0*"))

    assert run_with(manager_over(tmp_path), finish) == []


@pytest.mark.parametrize("newer", [0, 1])
@pytest.mark.parametrize("is_empty", [False, True])
def test_of_a_partition_in_two_directories_the_newer_log_is_loaded(
    tmp_path, caplog, newer, is_empty
):
    """TOP-15: a broker may die before it has told where its replica was made anew.

    The newer one has the batch of the higher leader epoch, not the one more record; or the other
    one is empty. That is renamed, and is there for as long as the broker runs.
    """
    directories = [tmp_path / "a", tmp_path / "b"]
    older = 1 - newer

    written = {
        newer: {"record_count": 2, "leader_epoch": 5},
        older: {"record_count": 0 if is_empty else 3, "leader_epoch": 4},
    }
    hidden = tmp_path / "hidden"

    async def write(manager, directory, record_count, leader_epoch):
        log = manager.create(partition("t"), TOPIC_ID, topic_config(), str(directory))
        if record_count:
            batch = encode_batch([Record(n, 1, b"k", b"v") for n in range(record_count)])
            log.append_as_leader(memoryview(bytearray(batch)), leader_epoch, now_ms=1_000_000)
            log.write_staged()

    for number, directory in enumerate(directories):
        work = partial(write, directory=directory, **written[number])
        run_with(manager_over(*directories), work)
        if number == 0:
            (directory / "t-0").rename(hidden)  # as while it is offline
    hidden.rename(directories[0] / "t-0")

    async def look(manager):
        log = manager.logs[partition("t")]
        await manager.removals.remove_due(2**62)
        return log.directory, log.log_end_offset

    assert run_with(manager_over(*directories), look) == (str(directories[newer] / "t-0"), 2)
    (put_aside,) = directories[older].glob("t-0*")
    assert put_aside.name.endswith("-stray")
    assert "the metadata remembers none of them" in caplog.text


def test_of_a_partition_in_two_directories_the_remembered_one_is_loaded(tmp_path):
    """TOP-15, LOG-11: its old directory was offline when the replica was assigned anew."""
    a, b = tmp_path / "a", tmp_path / "b"

    async def make(manager):
        manager.create(partition("t"), TOPIC_ID, topic_config(), str(b))
        return manager.directories[1].directory_id

    remembered = run_with(manager_over(a, b), make)
    (a / "t-0").mkdir()
    manager = manager_over(a, b)
    manager.remembered_directory = lambda topic_partition: remembered

    async def where(manager):
        return manager.logs[partition("t")].directory

    assert run_with(manager, where) == str(b / "t-0")
    assert [path.name.endswith("-stray") for path in a.glob("t-0*")] == [True]


def test_a_log_without_an_id_is_not_taken_for_a_replica_that_is_in_another_directory(tmp_path):
    """Its disk failed as its topic was deleted; that of the new topic went with the power.

    Found by a history of the model (seed 787648).
    """
    a, b = tmp_path / "a", tmp_path / "b"

    async def make(manager):
        manager.create(partition("t"), TOPIC_ID, topic_config(), str(a))
        return [directory.directory_id for directory in manager.directories]

    in_a, in_b = run_with(manager_over(a, b), make)
    (a / "t-0" / "partition.metadata").write_bytes(b"version: 0\ntopic_id")

    async def is_loaded(manager):
        return partition("t") in manager.logs

    manager = manager_over(a, b)
    manager.remembered_directory = lambda topic_partition: in_b
    assert not run_with(manager, is_loaded)
    (stray,) = a.glob("t-0*")
    assert stray.name.endswith("-stray")
    stray.rename(a / "t-0")
    (a / "t-0" / "partition.metadata").write_bytes(b"version: 0\ntopic_id")
    manager = manager_over(a, b)
    manager.remembered_directory = lambda topic_partition: in_a
    assert run_with(manager, is_loaded)


class FailingDisk(RealDisk):
    """A disk one of whose directories stops working."""

    broken = "/nowhere"

    def _check(self, path):
        if path.startswith(self.broken):
            raise OSError(errno.EIO, "broken", path)

    def open(self, path, **modes):
        self._check(path)
        return super().open(path, **modes)

    def make_directories(self, path):
        self._check(path)
        super().make_directories(path)

    def make_directory(self, path):
        self._check(path)
        return super().make_directory(path)

    def write_atomically(self, path, data):
        self._check(path)
        super().write_atomically(path, data)


def test_a_failing_directory_goes_offline_alone(tmp_path):
    """LOG-11: its partitions answer KAFKA_STORAGE_ERROR (56); no marker for it."""
    a, b = tmp_path / "a", tmp_path / "b"
    disk = FailingDisk()
    offline = []

    async def work(manager):
        manager.on_directory_offline = offline.append
        logs = [manager.create(partition("t", n), TOPIC_ID, topic_config()) for n in range(2)]
        on_a, on_b = sorted(logs, key=lambda log: log.directory)
        manager.take_offline(on_a.directory, OSError(errno.EIO, "broken"))
        manager.take_offline(on_a.directory, OSError(errno.EIO, "broken"))
        assert manager.get(on_a.topic_partition) is None
        with pytest.raises(KafkaError) as caught:
            append(on_a, (b"k", b"v"))
        assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        append(on_b, (b"k", b"v"))
        assert manager.create(partition("u"), TOPIC_ID, topic_config()).directory == str(b / "u-0")

    run_with(manager_over(a, b, disk=disk), work)
    assert [directory.path for directory in offline] == [str(a)]
    assert not (a / ".kafka_cleanshutdown").exists()
    assert (b / ".kafka_cleanshutdown").exists()


def test_a_directory_that_fails_at_creation_is_passed_over(tmp_path):
    """TOP-16: dir fails at creation, try the next; none left is KAFKA_STORAGE_ERROR."""
    a, b = tmp_path / "a", tmp_path / "b"
    disk = FailingDisk()

    async def work(manager):
        disk.broken = str(a)
        log = manager.create(partition("t"), TOPIC_ID, topic_config())
        assert log.directory == str(b / "t-0")
        assert manager.directories[0].is_offline
        disk.broken = str(tmp_path)
        with pytest.raises(KafkaError) as caught:
            manager.create(partition("u"), TOPIC_ID, topic_config())
        assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        disk.broken = "/nowhere"

    run_with(manager_over(a, b, disk=disk), work)


def test_a_broker_starts_if_one_directory_is_left(tmp_path):
    """NODE-8: and refuses if none is."""
    a, b = tmp_path / "a", tmp_path / "b"
    disk = FailingDisk()
    disk.broken = str(a)
    manager = run_with(manager_over(a, b, disk=disk), nothing)
    assert [directory.is_offline for directory in manager.directories] == [True, False]
    disk = FailingDisk()
    disk.broken = str(tmp_path)
    manager = manager_over(a, b, disk=disk)
    with pytest.raises(NoLogDirectoryError):
        manager.open_directories()
    crash(manager)


def test_a_changed_topic_config_reaches_open_logs(tmp_path):
    """SEG-14."""

    async def work(manager):
        log = manager.create(partition("t"), TOPIC_ID, topic_config())
        other = manager.create(partition("u"), TOPIC_ID, topic_config())
        manager.update_topic_configs({"t": topic_config(retention_ms="5")})
        return log.config.retention_ms, other.config.retention_ms

    assert run_with(manager_over(tmp_path), work) == (5, 604_800_000)


def test_the_metadata_log_can_be_loaded_before_the_rest(tmp_path):
    """BOOT-2: what it says decides what the other directories are."""
    name = partition("__cluster_metadata")

    async def start(expected):
        manager = manager_over(tmp_path)
        log = await manager.load_partition(name, TOPIC_ID, topic_config())
        assert await records_of(log) == expected
        asked = []
        await manager.load(lambda *question: asked.append(question) or topic_config())
        assert asked == []
        assert manager.get(name) is log
        append(log, (b"k", b"v"))
        await manager.close()
        crash(manager)

    asyncio.run(start([]))
    asyncio.run(start([(0, b"k", b"v")]))

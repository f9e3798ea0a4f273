"""Importing a partition directory that another broker wrote."""

import asyncio
import shutil

import pytest

from barnabas_broker.env.clock import SystemClock
from barnabas_broker.env.disk import RealDisk
from barnabas_broker.env.randomness import SystemRandom
from barnabas_broker.log.import_directory import (
    ImportRefusedError,
    TransactionFate,
    import_partition,
    inspect_partition,
    latest_numbers,
)
from barnabas_broker.log.segment import RELATIVE_OFFSET_MAX
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.records.control import ControlType, encode_marker
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

OTHER_ID = bytes(15) + b"o"


@pytest.fixture
def disk():
    disk = RealDisk()
    yield disk
    disk.close()


@pytest.fixture
def source(tmp_path):
    """A stopped broker's directory with a partition of three segments that starts at offset 1."""

    async def fill(manager):
        log = manager.create(partition("t", 3), TOPIC_ID, topic_config())
        for number in range(3):
            append(log, (b"k", b"%d" % number), (b"l", b"v"))
            log.roll()
        append(log, (b"k", b"last"))
        await log.delete_records(1)

    run_with(manager_over(tmp_path / "source"), fill)
    return tmp_path / "source" / "t-3"


@pytest.fixture
def target(tmp_path):
    async def nothing(manager):
        return None

    run_with(manager_over(tmp_path / "target", node_id=2), nothing)
    return tmp_path / "target"


def bring(disk, source, target, **options):
    found = inspect_partition(disk, str(source))
    options.setdefault("topic_id", found.topic_id)
    return import_partition(
        disk, SystemClock(), SystemRandom(), found, str(target), topic_config(), **options
    )


def test_all_records_arrive_with_their_offsets_and_topic_id(disk, source, target):
    """LOG-14, REC-1: also without the indexes and snapshots of the source."""
    for path in source.glob("*.index"):
        path.unlink()
    found = inspect_partition(disk, str(source))
    assert found.topic_partition == TopicPartition("t", 3)
    assert found.topic_id == TOPIC_ID
    assert (found.log_start_offset, found.log_end_offset) == (1, 7)
    assert (found.segment_count, found.batch_count, found.record_count) == (4, 4, 7)
    assert found.cut_bytes == 0
    assert bring(disk, source, target)[:3] == (str(target / "t-3"), 7, 0)

    async def work(manager):
        log = manager.get(partition("t", 3))
        assert log.topic_id == TOPIC_ID
        assert (log.log_start_offset, log.high_watermark, log.recovery_point) == (1, 7, 7)
        return [offset for offset, _, _ in await records_of(log)]

    assert run_with(manager_over(target, node_id=2), work) == [1, 2, 3, 4, 5, 6]
    assert source.exists()


def test_a_moved_partition_is_gone_from_its_source(disk, source, target):
    bring(disk, source, target, moves=True, topic_id=OTHER_ID)
    assert not source.exists()
    text = (target / "t-3" / "partition.metadata").read_text()
    assert text == "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAbw\n"


def test_a_torn_tail_is_reported_and_left_out(disk, source, target):
    """REC-1: what an unclean stop or preallocation leaves behind the last batch."""
    with open(source / "00000000000000000006.log", "ab") as file:
        file.write(bytes(5000))
    assert inspect_partition(disk, str(source)).cut_bytes == 5000
    bring(disk, source, target)
    size = (target / "t-3" / "00000000000000000006.log").stat().st_size
    assert size == (source / "00000000000000000006.log").stat().st_size - 5000


def test_damage_before_the_tail_is_refused(disk, source, target):
    """An import must not lose records in silence."""
    log = source / "00000000000000000002.log"
    data = bytearray(log.read_bytes())
    data[70] ^= 1
    log.write_bytes(data)
    with pytest.raises(ImportRefusedError, match="checksum"):
        bring(disk, source, target)
    assert list(target.glob("t-3*")) == []


def test_batches_of_an_old_format_are_refused(disk, source):
    """formats.md 2: magic 0 and 1 are not read."""
    log = source / "00000000000000000006.log"
    data = bytearray(log.read_bytes())
    data[16] = 1
    log.write_bytes(data)
    with pytest.raises(ImportRefusedError, match="magic"):
        inspect_partition(disk, str(source))


def test_what_is_not_a_partition_is_refused(disk, source, tmp_path):
    for name in ("source", "nothing-0"):
        with pytest.raises(ImportRefusedError):
            inspect_partition(disk, str(tmp_path / name))
    (source / "00000000000000000000.log.swap").write_bytes(b"")
    with pytest.raises(ImportRefusedError, match="unfinished compaction"):
        inspect_partition(disk, str(source))


def test_an_existing_partition_is_never_replaced(disk, source, target):
    (target / "t-3").mkdir()
    with pytest.raises(ImportRefusedError, match="exists already"):
        bring(disk, source, target)


def test_a_running_broker_on_either_side_is_refused(disk, source, target):
    """formats.md 5: the lock says that a broker is running."""
    for directory, node_id in ((source.parent, 1), (target, 2)):
        manager = manager_over(directory, node_id=node_id)
        manager.open_directories()
        with pytest.raises(ImportRefusedError, match="is running"):
            bring(disk, source, target)
        asyncio.run(manager.close())
        crash(manager)


def test_an_interrupted_import_leaves_only_a_copy_to_be_removed(disk, source, target):
    """TOP-15: the next start removes it; the source is untouched."""

    class FullDisk(RealDisk):
        def rename(self, old, new):
            if new.endswith("t-3"):
                raise OSError("no")
            super().rename(old, new)

        def remove_tree(self, path):
            raise OSError("no")

    full = FullDisk()
    with pytest.raises(OSError, match="no"):
        bring(full, source, target)
    full.close()
    (stray,) = target.glob("t-3.*-discarded")

    async def clean(manager):
        assert manager.logs == {}
        await manager.removals.remove_due(2**62)

    run_with(manager_over(target, node_id=2), clean)
    assert not stray.exists()
    shutil.rmtree(source)


def test_the_latest_producer_id_is_one_that_a_cluster_has_given_out(disk, tmp_path):
    """CTL-15: an id that a client has chosen itself leaves the target cluster its ids."""
    records = [Record(0, 1, b"k", b"v")]

    async def fill(manager):
        log = manager.create(partition("t", 0), TOPIC_ID, topic_config())
        for producer_id in (4999, 2**63 - 1, 1000):
            batch = encode_batch(
                records, producer_id=producer_id, producer_epoch=0, base_sequence=0
            )
            log.append_as_leader(bytearray(batch), 5, now_ms=1)
        log.write_staged()

    run_with(manager_over(tmp_path / "kafka"), fill)
    assert latest_numbers(disk, str(tmp_path / "kafka" / "t-0")) == (5, 4999)


def test_an_open_transaction_is_aborted(disk, target, tmp_path):
    """TXL-5: nobody here could end it, and the last stable offset would never move again."""

    def batch(producer_id, sequence):
        records = [Record(0, 1, b"k", b"v")]
        return encode_batch(
            records,
            producer_id=producer_id,
            producer_epoch=3,
            base_sequence=sequence,
            is_transactional=True,
        )

    async def fill(manager):
        log = manager.create(partition("t", 0), TOPIC_ID, topic_config())
        append(log, (b"k", b"plain"))
        for producer_id, sequence in ((8, 0), (7, 0), (8, 1), (9, 0)):
            log.append_as_leader(bytearray(batch(producer_id, sequence)), 5, now_ms=1)
        marker = encode_marker(
            ControlType.COMMIT, producer_id=9, producer_epoch=3, coordinator_epoch=2, timestamp=1
        )
        log.append_as_leader(marker, 5, internal=True, now_ms=1)
        log.write_staged()
        log.advance_high_watermark(6)
        assert log.last_stable_offset == 1

    run_with(manager_over(tmp_path / "kafka"), fill)
    brought = bring(disk, tmp_path / "kafka" / "t-0", target)
    assert brought[:4] == (str(target / "t-0"), 8, 2, 2)
    found = inspect_partition(disk, brought.path)
    assert (found.log_end_offset, found.record_count) == (8, 8)

    async def look(manager):
        log = manager.logs[partition("t", 0)]
        return (
            log.last_stable_offset,
            log.aborted_transactions(0, 8),
            log.leader_epochs.entries[-1],
            {entry.transaction_first_offset for entry in log.producer_state.active()},
        )

    for is_clean_stop in (False, True):
        told = run_with(manager_over(target, node_id=2), look, is_clean_stop=is_clean_stop)
        assert told == (8, [(8, 1), (7, 2)], (5, 1), {-1})


def producing(producer_id, *, is_transactional=False):
    return bytearray(
        encode_batch(
            [Record(0, 1, b"k", b"v")],
            producer_id=producer_id,
            producer_epoch=3,
            base_sequence=0,
            is_transactional=is_transactional,
        )
    )


@pytest.mark.parametrize("is_clean_stop", [True, False])
def test_an_open_transaction_ends_as_was_decided(disk, target, tmp_path, is_clean_stop):
    """TXN-7: whose note of a commit was written is committed, though its marker had not come."""

    async def fill(manager):
        log = manager.create(partition("t", 0), TOPIC_ID, topic_config())
        for producer_id in (7, 8, 9):
            log.append_as_leader(producing(producer_id, is_transactional=True), 5, now_ms=1)
        log.write_staged()

    run_with(manager_over(tmp_path / "kafka"), fill)
    decided = {7: TransactionFate.UNKNOWN, 8: TransactionFate.COMMITTED, 9: TransactionFate.ABORTED}

    def fates(place, producer_id, producer_epoch):
        assert (place, producer_epoch) == (TopicPartition("t", 0), 3)
        return decided[producer_id]

    brought = bring(disk, tmp_path / "kafka" / "t-0", target, fates=fates)
    assert brought == (str(target / "t-0"), 6, 2, 1, 1)

    async def look(manager):
        log = manager.logs[partition("t", 0)]
        return log.last_stable_offset, log.aborted_transactions(0, 6)

    told = run_with(manager_over(target, node_id=2), look, is_clean_stop=is_clean_stop)
    assert told == (6, [(7, 0), (9, 2)])


@pytest.mark.parametrize("is_clean_stop", [True, False])
def test_producers_whose_ids_were_given_out_here_are_forgotten(
    disk, target, tmp_path, is_clean_stop
):
    """The first batch of one of ours was taken for a repetition of theirs: acknowledged, and not
    there."""

    async def fill(manager):
        log = manager.create(partition("t", 0), TOPIC_ID, topic_config())
        for producer_id in (7, 8):
            log.append_as_leader(producing(producer_id), 5, now_ms=1)
            log.write_staged()
            log.roll()

    run_with(manager_over(tmp_path / "kafka"), fill)
    bring(disk, tmp_path / "kafka" / "t-0", target, given_producer_ids_below=8)

    async def look(manager):
        return list(manager.logs[partition("t", 0)].producer_state.producers)

    for _ in range(2):
        told = run_with(manager_over(target, node_id=2), look, is_clean_stop=is_clean_stop)
        assert told == [8]


def test_an_open_transaction_is_aborted_behind_a_gap_wider_than_a_segment(disk, target, tmp_path):
    """SEG-1: a marker that is further from the segment's base than an index can say has its own."""
    records = [Record(0, 1, b"k", b"v")]
    opening = encode_batch(
        records, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    far = RELATIVE_OFFSET_MAX

    async def fill(manager):
        log = manager.create(partition("t", 0), TOPIC_ID, topic_config())
        log.append_as_leader(bytearray(opening), 0, now_ms=1)
        log.append_as_follower(encode_batch([Record(far, 1, b"k", b"w")], base_offset=far))
        log.write_staged()

    run_with(manager_over(tmp_path / "kafka"), fill)
    assert bring(disk, tmp_path / "kafka" / "t-0", target)[:3] == (str(target / "t-0"), far + 2, 1)

    async def look(manager):
        log = manager.logs[partition("t", 0)]
        append(log, (b"k", b"x"))
        log.roll()
        return log.last_stable_offset, log.log_end_offset, await records_of(log)

    stable, end, found = run_with(manager_over(target, node_id=2), look)
    assert (stable, end) == (far + 3, far + 3)
    assert [offset for offset, *_ in found] == [0, far, far + 1, far + 2]

"""Leader epochs of a log: the worked example, trimming, and the file."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas_broker.env.disk import RealDisk
from barnabas_broker.log.checkpoints import CheckpointError
from barnabas_broker.log.leader_epochs import LeaderEpochs


def example() -> LeaderEpochs:
    epochs = LeaderEpochs(None, "memory")
    for epoch, offset in ((1, 20), (2, 80), (3, 120)):
        assert epochs.assign(epoch, offset)
    return epochs


@pytest.mark.parametrize(
    ("asked", "answer"),
    [(1, (1, 80)), (2, (2, 120)), (3, (3, 150)), (0, (0, 20)), (4, (-1, -1)), (-1, (-1, -1))],
)
def test_end_offset_of_an_epoch_follows_the_worked_example(asked, answer):
    """REP-15: entries (1,20) (2,80) (3,120), log end offset 150."""
    assert example().end_offset_for(asked, 150) == answer


def test_an_epoch_between_two_entries_answers_with_the_lower_one():
    """REP-15: the largest epoch not above the asked one, and the start of the next larger."""
    epochs = LeaderEpochs(None, "memory")
    epochs.assign(2, 10)
    epochs.assign(7, 50)
    assert epochs.end_offset_for(5, 90) == (2, 50)
    assert LeaderEpochs(None, "memory").end_offset_for(0, 90) == (-1, -1)


def test_a_new_entry_replaces_those_that_begin_behind_it():
    """REP-14: both columns strictly rise."""
    epochs = example()
    assert epochs.assign(5, 100)
    assert epochs.entries == ((1, 20), (2, 80), (5, 100))
    assert not epochs.assign(5, 130)
    assert not epochs.assign(4, 130)
    assert not epochs.assign(-1, 130)
    assert epochs.latest == 5


def test_truncation_from_the_end_drops_later_entries():
    """REP-14: trimmed with truncation."""
    epochs = example()
    assert epochs.truncate_from_end(80)
    assert epochs.entries == ((1, 20),)
    assert not epochs.truncate_from_end(80)


def test_truncation_from_the_start_moves_the_covering_entry():
    """REP-14: trimmed with retention; the epoch of the first record stays known."""
    epochs = example()
    assert epochs.truncate_from_start(90)
    assert epochs.entries == ((2, 90), (3, 120))
    assert not epochs.truncate_from_start(90)
    assert not epochs.truncate_from_start(10)
    assert (epochs.epoch_for(89), epochs.epoch_for(119), epochs.epoch_for(120)) == (-1, 2, 3)
    assert (epochs.previous_epoch(3), epochs.previous_epoch(2)) == (2, -1)


def test_the_file_is_what_apache_kafka_writes(tmp_path):
    """REP-14, formats.md 8: `leader-epoch-checkpoint`."""
    disk = RealDisk()
    try:
        epochs = LeaderEpochs.load(disk, str(tmp_path))
        epochs.assign(0, 0)
        epochs.assign(4, 17)
        assert epochs.is_dirty
        epochs.flush()
        assert not epochs.is_dirty
        assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n2\n0 0\n4 17\n"
        assert LeaderEpochs.load(disk, str(tmp_path)).entries == epochs.entries
        epochs.truncate_from_end(17)
        epochs.flush()
        assert LeaderEpochs.load(disk, str(tmp_path)).entries == ((0, 0),)
        epochs.clear()
        epochs.flush()
        assert LeaderEpochs.load(disk, str(tmp_path)).entries == ()
    finally:
        disk.close()


def test_a_file_that_does_not_rise_is_refused(tmp_path):
    """REP-14: a broken file is rebuilt from batches, never believed."""
    disk = RealDisk()
    try:
        (tmp_path / "leader-epoch-checkpoint").write_text("0\n2\n1 10\n2 10\n")
        with pytest.raises(CheckpointError):
            LeaderEpochs.load(disk, str(tmp_path))
    finally:
        disk.close()


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 200)), max_size=30),
    st.integers(0, 25),
    st.integers(200, 300),
)
def test_entries_always_rise_and_answers_match_a_plain_search(assignments, asked, end):
    """REP-14, REP-15 for any order of assignments."""
    epochs = LeaderEpochs(None, "memory")
    for epoch, offset in assignments:
        epochs.assign(epoch, offset)
    entries = epochs.entries
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(entries))
    if not entries or asked > entries[-1][0]:
        expected = (-1, -1)
    elif asked == entries[-1][0]:
        expected = (asked, end)
    else:
        above = min(offset for epoch, offset in entries if epoch > asked)
        expected = (max((epoch for epoch, _ in entries if epoch <= asked), default=asked), above)
    assert epochs.end_offset_for(asked, end) == expected

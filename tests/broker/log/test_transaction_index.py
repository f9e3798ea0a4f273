"""The index of aborted transactions: bytes, search by offset range, truncation, crashes."""

import random

import pytest

from barnabas_broker.env.disk import RealDisk
from barnabas_broker.log.transaction_index import AbortedTransaction, TransactionIndex


@pytest.fixture
def disk():
    disk = RealDisk()
    yield disk
    disk.close()


def filled(disk, path):
    index = TransactionIndex(disk, str(path), 0)
    index.append(AbortedTransaction(1, 0, 10, 5))
    index.append(AbortedTransaction(2, 5, 20, 15))
    index.append(AbortedTransaction(3, 15, 30, 31))
    return index


def test_entries_have_apache_kafkas_bytes(disk, tmp_path):
    """formats.md 6: 34 bytes, version 0."""
    index = TransactionIndex(disk, str(tmp_path / "i"), 0)
    assert not (tmp_path / "i").exists()
    index.append(AbortedTransaction(1, 2, 3, 4))
    index.flush()
    index.close()
    assert (tmp_path / "i").read_bytes().hex() == (
        "0000" "0000000000000001" "0000000000000002" "0000000000000003" "0000000000000004"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("start", "end", "producers", "is_complete"),
    [
        (0, 5, [1], True),
        (0, 6, [1, 2], True),
        (11, 15, [2], True),
        (11, 16, [2, 3], True),
        (21, 40, [3], False),
        (31, 40, [], False),
    ],
)
def test_a_range_gets_the_transactions_that_overlap_it(
    disk, tmp_path, start, end, producers, is_complete
):
    """TXL-7: the last stable offset says when later segments need not be asked."""
    found, complete = filled(disk, tmp_path / "i").collect(start, end)
    assert [entry.producer_id for entry in found] == producers
    assert complete is is_complete


def test_truncation_drops_the_markers_behind_it(disk, tmp_path):
    """REC-5."""
    index = filled(disk, tmp_path / "i")
    index.truncate_to(20)
    assert [entry.producer_id for entry in index.entries()] == [1]
    index.append(AbortedTransaction(9, 12, 25, 26))
    index.close()
    again = TransactionIndex(disk, str(tmp_path / "i"), 0)
    assert [entry.producer_id for entry in again.entries()] == [1, 9]
    assert not again.is_damaged


def test_a_torn_last_entry_is_ignored_and_overwritten(disk, tmp_path):
    """REC-2: what a crash leaves behind the whole entries does not shift those that follow."""
    filled(disk, tmp_path / "i").close()
    with open(tmp_path / "i", "ab") as file:
        file.write(b"torn")
    index = TransactionIndex(disk, str(tmp_path / "i"), 0)
    assert len(index) == 3
    index.append(AbortedTransaction(4, 32, 40, 41))
    index.close()
    again = TransactionIndex(disk, str(tmp_path / "i"), 0)
    assert not again.is_damaged
    assert len(again) == 4


def test_order_is_enforced(disk, tmp_path):
    """formats.md 6: rising last offset."""
    index = filled(disk, tmp_path / "i")
    with pytest.raises(ValueError, match="does not come after"):
        index.append(AbortedTransaction(4, 1, 30, 41))
    index.close()
    (tmp_path / "i").write_bytes((tmp_path / "i").read_bytes() * 2)
    doubled = TransactionIndex(disk, str(tmp_path / "i"), 0)
    assert doubled.is_damaged
    doubled.restore(20, [AbortedTransaction(4, 15, 25, 26)])
    assert [entry.producer_id for entry in doubled.entries()] == [1, 4]
    assert not TransactionIndex(disk, str(tmp_path / "i"), 0).is_damaged


def aborted(rng, count):
    """Transactions that began a while before their markers, some a very long while."""
    found, stable = [], 0
    for number in range(count):
        last = 10 * number + 9
        first = max(last - rng.choice([1, 30, 300, 9_000]), 0)
        stable = max(stable, last - rng.choice([0, 50, 5_000]), 1)
        found.append(AbortedTransaction(number, first, last, min(stable, last + 1)))
    return found


def overlapping(entries, start, end):
    """What a search over all entries finds."""
    found = []
    for entry in entries:
        if entry.last_offset < start:
            continue
        if entry.first_offset < end:
            found.append(entry)
        if entry.last_stable_offset >= end:
            return found, True
    return found, False


@pytest.mark.parametrize("seed", range(4))
def test_very_many_entries_are_searched_as_few_are(disk, tmp_path, seed):
    """TXL-7: whole blocks are passed over; cut, made anew and read again there are the same."""
    rng = random.Random(seed)
    entries = aborted(rng, 3_000)
    index = TransactionIndex(disk, str(tmp_path / "i"), 0)
    for entry in entries:
        index.append(entry)

    def check(searched):
        for _ in range(200):
            start = rng.randrange(30_000)
            end = start + rng.choice([1, 20, 4_000])
            assert searched.collect(start, end) == overlapping(entries, start, end)

    check(index)
    offset = rng.randrange(15_000, 30_000)
    index.truncate_to(offset)
    entries = [entry for entry in entries if entry.last_offset < offset]
    check(index)
    other = [entry._replace(producer_id=7) for entry in aborted(rng, 3_000)]
    other = [entry for entry in other if entry.last_offset >= offset]
    index.restore(offset, other)
    entries += other
    check(index)
    index.close()
    check(TransactionIndex(disk, str(tmp_path / "i"), 0))

"""Which records a member acquires: windows, modes, cuts, and records that fail again and again."""

from __future__ import annotations

import pytest

from barnabas_broker.share.acquisition import RANGES_MAX, FetchedBatch
from barnabas_broker.share.persister import StateBatch
from barnabas_broker.share.record_states import RecordState
from barnabas_broker.share.share_partition import SharePartition
from barnabas_broker.share.share_settings import ShareSettings
from tests.broker.share.share_calls import acknowledge, batches, new, release, take


@pytest.mark.parametrize(("records_max", "last"), [(1, 9), (10, 9), (11, 19), (25, 29)])
def test_batch_optimized_rounds_up_to_the_end_of_a_record_batch(
    records_max: int, last: int
) -> None:
    """SHR-10."""
    read = batches(10, 10, 10)
    assert take(new(), read, records_max=records_max) == [(0, last, 1)]


def test_batch_optimized_cuts_at_borders_of_record_batches() -> None:
    """SHR-10: acquired batches are at least as large as BatchSize wants them."""
    partition = new()
    acquired = take(partition, batches(4, 4, 4, 4, 4), batch_size=7)
    assert acquired == [(0, 7, 1), (8, 15, 1), (16, 19, 1)]
    assert partition.offsets.range_count == 3


def test_record_limit_takes_no_more_and_leaves_the_rest_available() -> None:
    """SHR-10, KIP-1206: the batch is read again for the rest."""
    partition, read = new(), batches(10, 10)
    assert take(partition, read, records_max=4, is_record_limit=True) == [(0, 3, 1)]
    assert take(partition, read, records_max=4, is_record_limit=True) == [(4, 7, 1)]
    assert take(partition, read, records_max=4, is_record_limit=True) == [(8, 11, 1)]


def test_a_fetch_begins_at_the_first_available_offset() -> None:
    """SHR-8: what others have is left out."""
    partition, read = new(), batches(5, 5, 5)
    take(partition, read)
    acknowledge(partition, (0, 0, 1), (3, 4, 2), (9, 11, 2))
    assert partition.next_fetch_offset == 3
    assert take(partition, read) == [(3, 4, 2), (9, 11, 2)]
    assert partition.next_fetch_offset == 15


def test_no_more_offsets_are_in_flight_than_the_limit() -> None:
    """SHR-9: gaps count; at the limit only what is available inside the window is acquired."""
    partition, read = new(record_locks_max=10), batches(4, 4, 4, 4)
    assert take(partition, read) == [(0, 9, 1)]
    assert partition.next_fetch_offset is None
    acknowledge(partition, (4, 9, 1))
    assert partition.next_fetch_offset is None  # the start has not moved
    acknowledge(partition, (1, 1, 2))
    assert take(partition, read) == [(1, 1, 2)]
    acknowledge(partition, (0, 0, 1), (2, 3, 1))
    assert partition.start_offset == 1
    assert take(partition, read) == [(10, 10, 1)]


def test_a_lower_limit_leaves_what_is_behind_the_window() -> None:
    """SHR-9, SHR-38: it applies at once."""
    partition = new()
    take(partition, batches(20))
    release(partition)
    partition.settings = ShareSettings(record_locks_max=10)
    assert take(partition, batches(20)) == [(0, 9, 2)]
    assert partition.next_fetch_offset is None


def test_holes_of_a_loaded_state_are_fetched_like_new_offsets() -> None:
    """SHR-6: nobody has acquired them, as far as is known."""
    stored = [StateBatch(0, 1, 2, 1), StateBatch(5, 6, 2, 1), StateBatch(9, 9, 0, 3)]
    partition = SharePartition.load(0, stored, ShareSettings(delivery_count_limit=10))
    assert (partition.start_offset, partition.end_offset) == (2, 9)
    assert take(partition, batches(4, 4, 4)) == [(2, 4, 1), (7, 8, 1), (9, 9, 4), (10, 11, 1)]


def test_offsets_without_a_record_are_archived_and_the_start_moves_over_them() -> None:
    """SHR-7, SHR-13: of a compacted log, in front of what was read."""
    partition = new(record_locks_max=10)
    assert take(partition, [FetchedBatch(1_000, 1_003)]) == [(1_000, 1_003, 1)]
    assert (partition.start_offset, partition.end_offset) == (1_000, 1_003)
    write = partition.take_write()
    assert write is not None
    assert (write.start_offset, list(write.batches)) == (1_000, [])


def test_released_records_that_compaction_has_removed_are_archived() -> None:
    """SHR-7: nobody could ever deliver them."""
    partition = new()
    take(partition, batches(10))
    release(partition)
    assert take(partition, [FetchedBatch(6, 9)]) == [(6, 9, 2)]
    assert partition.start_offset == 6


def test_holes_inside_of_a_read_are_acquired_for_the_client_to_tell() -> None:
    """SHR-13: clients acknowledge them as gaps."""
    assert take(new(), [FetchedBatch(0, 3), FetchedBatch(8, 9)]) == [(0, 9, 1)]


def test_aborted_batches_are_archived_and_cut_the_acquired_ones() -> None:
    """SHR-34."""
    partition = new()
    read = [FetchedBatch(0, 3), FetchedBatch(4, 7, True), FetchedBatch(8, 9)]
    assert take(partition, read) == [(0, 3, 1), (8, 9, 1)]
    assert partition.offsets.counts[RecordState.ARCHIVED] == 4


def test_one_walk_acquires_so_many_ranges_and_leaves_the_rest() -> None:
    """SHR-10: nobody keeps the loop by acquiring records one by one and releasing them."""
    partition, read = new(), batches(RANGES_MAX + 5)
    for _ in range(RANGES_MAX + 5):
        take(partition, read, records_max=1, is_record_limit=True)
    release(partition)
    assert len(take(partition, read)) == RANGES_MAX
    assert partition.next_fetch_offset == RANGES_MAX
    assert len(take(partition, read)) == 5


# Records that fail again and again.


def fail(partition: SharePartition, size: int, times: int) -> None:
    """Acquire and release everything so often."""
    for _ in range(times):
        take(partition, batches(size))
        release(partition)


def test_records_that_have_failed_often_are_handed_out_in_parts() -> None:
    """SHR-12: limit 6, so from the third failure on; a half, then a quarter, then one by one."""
    partition = new(delivery_count_limit=6)
    fail(partition, 16, 3)
    assert take(partition, batches(16)) == [(0, 7, 4)]
    assert take(partition, batches(16)) == [(8, 15, 4)]
    release(partition)
    assert take(partition, batches(16)) == [(0, 3, 5)]
    release(partition)
    assert take(partition, batches(16)) == [(0, 0, 6)]
    release(partition)
    assert partition.start_offset == 1  # archived: that was its last attempt
    assert take(partition, batches(16)) == [(1, 1, 6)]


def test_a_part_may_span_record_batches() -> None:
    """SHR-12: it is a part of what was acquired together."""
    partition, read = new(delivery_count_limit=6), batches(*[1] * 16)
    for _ in range(3):
        take(partition, read)
        release(partition)
    assert take(partition, read) == [(0, 7, 4)]


def test_nothing_follows_and_nothing_precedes_a_part() -> None:
    """SHR-12: a fetch that has records already leaves it to the next one."""
    partition, read = new(delivery_count_limit=6), batches(4, 4, 4)
    take(partition, read, records_max=4)
    acknowledge(partition, (0, 3, 2))
    take(partition, read, records_max=8)
    acknowledge(partition, (0, 3, 2), (4, 7, 2))
    take(partition, read, records_max=8)
    acknowledge(partition, (0, 3, 2), (4, 7, 2))
    assert take(partition, read) == [(0, 1, 4)]
    assert take(partition, read) == [(2, 3, 4)]
    assert take(partition, read) == [(4, 7, 3), (8, 11, 1)]


@pytest.mark.parametrize("limit", [2, 3])
def test_the_last_attempt_goes_alone_unless_it_is_the_second(limit: int) -> None:
    """SHR-12: with a limit of 2 there is no attempt to tell the bad record by."""
    partition = new(delivery_count_limit=limit)
    fail(partition, 8, limit - 1)
    assert take(partition, batches(8)) == ([(0, 7, 2)] if limit == 2 else [(0, 0, 3)])

"""One share partition: acknowledgements, locks, limits, what is written and what is loaded."""

from __future__ import annotations

import pytest

from barnabas_broker.share.in_flight import OffsetRange, OffsetsInFlight
from barnabas_broker.share.persister import StateBatch
from barnabas_broker.share.record_states import LEGAL, AcknowledgementBatch, RecordState
from barnabas_broker.share.share_partition import EXPIRY_WORK_MAX, SharePartition
from barnabas_broker.share.share_settings import ShareSettings
from barnabas_broker.share.transition import StateWrite
from barnabas_protocol.errors import ErrorCode, KafkaError
from tests.broker.share.share_calls import MEMBER, batches, new, take

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
LOCK_MS = ShareSettings().record_lock_duration_ms


def acquired(count: int = 10, **settings: int) -> SharePartition:
    """A share partition of which so many records are acquired at time 0."""
    partition = new(**settings)
    take(partition, batches(count))
    return partition


def acknowledge(
    partition: SharePartition,
    *acknowledged: tuple[int, int, list[int]],
    member: str = MEMBER,
    is_renew: bool = False,
    now_ms: int = 0,
) -> int:
    """Begin an acknowledgement; returns the error code."""
    try:
        partition.acknowledge(
            member, [AcknowledgementBatch(*one) for one in acknowledged], now_ms, is_renew=is_renew
        )
    except KafkaError as error:
        return error.code
    return 0


def written(partition: SharePartition, error: KafkaError | None = None) -> StateWrite:
    """Have what is due written, or fail."""
    write = partition.take_write()
    assert write is not None
    partition.finish_write(write, error)
    return write


def states(partition: SharePartition) -> list[tuple[int, int, str]]:
    """First and last offset and state of each range."""
    return [
        (one.first_offset, one.last_offset, one.state.name.lower()) for one in partition.offsets
    ]


@pytest.mark.parametrize("state", RecordState)
def test_states_change_along_the_legal_ways_only(state: RecordState) -> None:
    """SHR-5: final states are never left."""
    for target in RecordState:
        offsets = OffsetsInFlight(0)
        offsets.append(OffsetRange(0, 9, state))
        if target in LEGAL[state]:
            offsets.move(offsets.range_at(0), target)
            assert offsets.counts[target] == 10
        else:
            with pytest.raises(AssertionError):
                offsets.move(offsets.range_at(0), target)


@pytest.mark.parametrize(
    ("acknowledged", "is_renew"),
    [
        ([(3, 2, [ACCEPT])], False),
        ([(0, 5, [ACCEPT]), (5, 6, [ACCEPT])], False),
        ([(5, 6, [ACCEPT]), (0, 1, [ACCEPT])], False),
        ([(-1, 2, [ACCEPT])], False),
        ([(0, 5, [ACCEPT, ACCEPT])], False),
        ([(0, 5, [])], False),
        ([(0, 0, [5])], False),
        ([(0, 0, [-1])], False),
        ([(0, 0, [RENEW])], False),
        ([(0, 0, [5])], True),
        ([(8, 10, [ACCEPT])], False),
        ([(20, 30, [ACCEPT])], False),
    ],
)
def test_malformed_acknowledgements_are_refused_and_change_nothing(
    acknowledged: list[tuple[int, int, list[int]]], is_renew: bool
) -> None:
    """SHR-15."""
    partition = acquired()
    assert acknowledge(partition, *acknowledged, is_renew=is_renew) == ErrorCode.INVALID_REQUEST
    assert not partition.needs_write
    assert states(partition) == [(0, 9, "acquired")]


def test_each_type_leads_to_its_state_after_the_write() -> None:
    """SHR-16, SHR-17: nothing of it can be acquired before."""
    partition = acquired()
    assert acknowledge(partition, (0, 4, [ACCEPT, RELEASE, REJECT, GAP, ACCEPT])) == 0
    assert partition.next_fetch_offset == 10
    assert states(partition)[0][2] == "acquired"
    write = written(partition)
    assert write.batches == [
        StateBatch(0, 0, 2, 1),
        StateBatch(1, 1, 0, 1),
        StateBatch(2, 3, 4, 1),
        StateBatch(4, 4, 2, 1),
    ]
    assert (write.start_offset, write.delivery_complete_count) == (0, 4)
    assert (partition.start_offset, partition.next_fetch_offset) == (1, 1)


def test_one_offset_that_is_not_acquired_refuses_all_of_the_partition() -> None:
    """SHR-16: another member's, one under way, or one that is available."""
    partition = acquired()
    assert acknowledge(partition, (4, 4, [ACCEPT])) == 0
    assert acknowledge(partition, (0, 3, [ACCEPT]), (4, 4, [ACCEPT])) == 121
    assert acknowledge(partition, (5, 5, [ACCEPT]), member="other") == 121
    written(partition)
    assert acknowledge(partition, (4, 4, [ACCEPT])) == 121
    assert acknowledge(partition, (5, 5, [RELEASE])) == 0
    written(partition)
    assert acknowledge(partition, (5, 6, [ACCEPT])) == 121
    assert [one for _, _, one in states(partition)].count("acquired") == 2


def test_a_failed_write_leaves_the_records_under_their_lock() -> None:
    """SHR-17."""
    partition = acquired()
    acknowledge(partition, (0, 9, [ACCEPT]))
    written(partition, KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    assert states(partition) == [(0, 9, "acquired")]
    assert partition.next_expiry_ms == LOCK_MS
    assert acknowledge(partition, (0, 9, [ACCEPT])) == 0


@pytest.mark.parametrize(("limit", "state"), [(5, "available"), (2, "archived")])
def test_a_write_that_fails_without_a_lock_ends_the_attempt(limit: int, state: str) -> None:
    """SHR-17: available, or archived at the limit."""
    partition = new(delivery_count_limit=limit)
    for _ in range(2):
        partition.release_members({MEMBER})
        take(partition, batches(2))
    acknowledge(partition, (1, 1, [ACCEPT]))
    assert partition.expire_locks(LOCK_MS) == 2
    assert states(partition)[-1] == (1, 1, "acquired")
    written(partition, KafkaError(ErrorCode.REQUEST_TIMED_OUT))
    if state == "archived":
        assert partition.start_offset == 2
    else:
        assert states(partition) == [(0, 0, "available"), (1, 1, "available")]


def test_locks_run_out_at_their_time_and_count_an_attempt() -> None:
    """SHR-11, SHR-18."""
    partition = new()
    take(partition, batches(4), records_max=2, is_record_limit=True, now_ms=0)
    take(partition, batches(4), now_ms=10)
    assert partition.expire_locks(LOCK_MS - 1) == 0
    assert partition.expire_locks(LOCK_MS) == 2
    assert partition.next_fetch_offset == 0
    assert partition.next_expiry_ms == LOCK_MS + 10
    assert written(partition).batches == [StateBatch(0, 1, 0, 1)]
    assert take(partition, batches(4)) == [(0, 1, 2)]


@pytest.mark.parametrize("way", ["release", "expiry", "session"])
def test_the_last_attempt_ends_in_the_archive(way: str) -> None:
    """SHR-11: at release, when the lock runs out, and with the session."""
    partition = acquired(1, delivery_count_limit=2)
    partition.release_members({MEMBER})
    take(partition, batches(1))
    if way == "release":
        acknowledge(partition, (0, 0, [RELEASE]))
    elif way == "expiry":
        partition.expire_locks(LOCK_MS)
    else:
        partition.release_members({MEMBER})
    if way == "release":
        assert written(partition).batches == [StateBatch(0, 0, 4, 2)]
    assert partition.start_offset == 1


def test_a_changed_limit_applies_from_the_next_end_of_an_attempt() -> None:
    """SHR-11, SHR-38."""
    partition = acquired(1)
    partition.settings = ShareSettings(delivery_count_limit=2)
    partition.release_members({MEMBER})
    take(partition, batches(1))
    partition.settings = ShareSettings(delivery_count_limit=3)
    partition.release_members({MEMBER})
    assert partition.next_fetch_offset == 0


def test_renewal_begins_the_lock_anew_and_needs_no_write() -> None:
    """SHR-19: also of a part of what was acquired together."""
    partition = acquired(4)
    assert acknowledge(partition, (1, 2, [RENEW]), is_renew=True, now_ms=100) == 0
    assert not partition.needs_write
    assert partition.expire_locks(LOCK_MS) == 2
    assert states(partition) == [(0, 0, "available"), (1, 2, "acquired"), (3, 3, "available")]
    assert partition.next_expiry_ms == LOCK_MS + 100


def test_acknowledgements_below_the_start_are_accepted_and_ignored() -> None:
    """SHR-7: after the log start has moved; what is above it still counts."""
    partition = acquired(10)
    partition.log_start_moved(4)
    assert (partition.start_offset, partition.end_offset) == (4, 9)
    assert acknowledge(partition, (0, 3, [ACCEPT])) == 0
    assert not partition.needs_write
    assert acknowledge(partition, (2, 5, [ACCEPT] * 4)) == 0
    assert written(partition).batches == [StateBatch(4, 5, 2, 1)]
    assert partition.start_offset == 6


def test_a_log_start_behind_the_end_leaves_nothing_in_flight() -> None:
    """SHR-7: also during a write."""
    partition = acquired(10)
    acknowledge(partition, (0, 9, [ACCEPT]))
    write = partition.take_write()
    assert write is not None
    partition.log_start_moved(50)
    partition.finish_write(write, None)
    assert (partition.start_offset, partition.end_offset) == (50, 49)
    assert partition.next_expiry_ms is None
    assert not partition.has_locks


def test_a_loaded_state_is_cut_sorted_and_without_its_final_beginning() -> None:
    """SHR-6, SHR-33."""
    stored = [
        StateBatch(12, 14, 0, 2),
        StateBatch(0, 6, 2, 1),
        StateBatch(7, 9, 4, 5),
        StateBatch(13, 16, 2, 1),
    ]
    partition = SharePartition.load(4, stored, ShareSettings())
    assert states(partition) == [
        (10, 11, "available"),
        (12, 14, "available"),
        (15, 16, "acknowledged"),
    ]


@pytest.mark.parametrize("state", [1, 7, -1])
def test_a_state_that_cannot_be_stored_is_refused(state: int) -> None:
    """SHR-5."""
    with pytest.raises(KafkaError):
        SharePartition.load(0, [StateBatch(0, 1, state, 1)], ShareSettings())


def test_what_was_acquired_again_before_its_write_is_stored_as_it_was() -> None:
    """SHR-5, SHR-33: Acquired is never stored, nor the count of the attempt under way."""
    partition = acquired(2)
    partition.expire_locks(LOCK_MS)
    take(partition, batches(2), now_ms=LOCK_MS)
    assert written(partition).batches == [StateBatch(0, 1, 0, 1)]


def test_ranges_are_joined_when_nothing_tells_them_apart() -> None:
    """SHR-6: memory goes by what differs, not by how it came about."""
    partition = acquired(100)
    for offset in range(1, 100):
        acknowledge(partition, (offset, offset, [RELEASE if offset % 2 else ACCEPT]))
    written(partition)
    assert partition.offsets.range_count == 100
    partition.release_members({MEMBER})
    take(partition, batches(100))
    acknowledge(partition, *[(offset, offset, [ACCEPT]) for offset in range(1, 100, 2)])
    written(partition)
    assert states(partition) == [(0, 0, "acquired"), (1, 99, "acknowledged")]


def test_very_many_locks_end_in_several_steps() -> None:
    """SHR-18: none of which keeps the loop."""
    partition = new()
    for _ in range(600):
        take(partition, batches(600), records_max=1, is_record_limit=True)
    ended = partition.expire_locks(LOCK_MS)
    assert 100 < ended < 600
    assert partition.next_expiry_ms == LOCK_MS
    assert partition.expire_locks(LOCK_MS) == 600 - ended
    assert partition.next_expiry_ms is None


def test_locks_over_everything_end_in_several_steps() -> None:
    """SHR-18: each was renewed for an offset at either end of very many ranges."""
    partition = acquired(2_000)

    def renew(offsets: list[int]) -> None:
        renewed = [AcknowledgementBatch(offset, offset, [RENEW]) for offset in offsets]
        partition.acknowledge(MEMBER, renewed, 1, is_renew=True)

    renew([*range(101, 1_801, 2)])
    for first in range(40):
        renew([first, 1_999 - first])
    assert partition.offsets.range_count > 1_700
    assert partition.expire_locks(LOCK_MS + 1) > 0
    assert partition.next_expiry_ms == LOCK_MS + 1
    for _ in range(2 * 40 * 1_800 // EXPIRY_WORK_MAX):
        partition.expire_locks(LOCK_MS + 1)
    assert partition.next_expiry_ms is None
    assert partition.offsets.range_count == 1


def test_locks_that_hold_nothing_any_more_are_forgotten() -> None:
    """SHR-18: a fast member makes very many in the time of one."""
    partition = new()
    for offset in range(1_000):
        take(partition, batches(1, base=offset))
        acknowledge(partition, (offset, offset, [ACCEPT]))
        written(partition)
        assert partition.next_expiry_ms is None
    assert not partition.has_locks
    assert partition.remembered_lock_count <= 65

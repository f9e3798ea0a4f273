"""Records of a share partition that end as dead letters: when they are that, and when final."""

from __future__ import annotations

import pytest

from barnabas_broker.share.dead_letters import DeadLetterCause, DeadLetters
from barnabas_broker.share.persister import StateBatch
from barnabas_broker.share.record_states import AcknowledgementBatch, RecordState
from barnabas_broker.share.share_partition import SharePartition
from barnabas_broker.share.share_settings import ShareSettings
from barnabas_broker.share.transition import StateWrite
from barnabas_protocol.errors import ErrorCode, KafkaError
from tests.broker.share.share_calls import MEMBER, batches, new, take

GAP, ACCEPT, RELEASE, REJECT = range(4)
REJECTED, DELIVERY_COUNT = DeadLetterCause.REJECTED, DeadLetterCause.DELIVERY_COUNT
FAILED = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def acquired(count: int = 10, *, deliveries: int = 1, limit: int = 3) -> SharePartition:
    """A share partition of which so many records are acquired for the n-th time."""
    partition = new(delivery_count_limit=limit, has_dead_letters=True)
    for _ in range(deliveries - 1):
        take_all(partition, count)
        partition.release_members({MEMBER})
        written(partition)
    take_all(partition, count)
    return partition


def take_all(partition: SharePartition, count: int) -> None:
    """Acquire so many records, those that have failed often in several fetches."""
    while (partition.next_fetch_offset or 0) < count and take(partition, batches(count)):
        pass


def acknowledge(partition: SharePartition, *acknowledged: tuple[int, int, list[int]]) -> None:
    partition.acknowledge(MEMBER, [AcknowledgementBatch(*one) for one in acknowledged], 0)


def written(partition: SharePartition, error: KafkaError | None = None) -> StateWrite:
    write = partition.take_write()
    assert write is not None
    partition.finish_write(write, error)
    return write


def states(partition: SharePartition) -> list[tuple[int, int, str]]:
    return [
        (one.first_offset, one.last_offset, one.state.name.lower()) for one in partition.offsets
    ]


def test_a_rejected_record_is_archiving_first_and_holds_the_start() -> None:
    """SHR-36: stored as Archiving, handed over, and Archived when that has an outcome."""
    partition = acquired(4)
    acknowledge(partition, (0, 3, [REJECT, REJECT, ACCEPT, GAP]))
    assert not partition.has_dead_letters
    write = written(partition)
    assert write.batches == [StateBatch(0, 1, 3, 1), StateBatch(2, 2, 2, 1), StateBatch(3, 3, 4, 1)]
    assert write.delivery_complete_count == 2
    assert partition.start_offset == 0
    letters = partition.take_dead_letters()
    assert letters == [DeadLetters(0, 1, 1, REJECTED)]
    assert partition.take_dead_letters() == []
    assert not partition.needs_write
    partition.finish_dead_letters(letters)
    assert partition.start_offset == 4
    assert written(partition).start_offset == 4


def test_gaps_are_no_dead_letters() -> None:
    """SHR-36."""
    partition = acquired(4)
    acknowledge(partition, (0, 3, [GAP]))
    written(partition)
    assert not partition.has_dead_letters
    assert partition.start_offset == 4


@pytest.mark.parametrize("way", ["release", "lock", "session"])
def test_a_record_at_its_limit_is_nobodys_until_archiving_is_written(way: str) -> None:
    """SHR-11, SHR-36: or a dead letter would be a record that another leader delivers again."""
    partition = acquired(1, deliveries=2, limit=2)
    if way == "release":
        acknowledge(partition, (0, 0, [RELEASE]))
    elif way == "lock":
        assert partition.expire_locks(10**6) == 1
    else:
        partition.release_members({MEMBER})
    assert states(partition) == [(0, 0, "acquired")]
    assert partition.next_fetch_offset == 1
    with pytest.raises(KafkaError) as refused:
        acknowledge(partition, (0, 0, [ACCEPT]))
    assert refused.value.code == ErrorCode.INVALID_RECORD_STATE
    assert written(partition).batches == [StateBatch(0, 0, 3, 2)]
    assert states(partition) == [(0, 0, "archiving")]
    assert partition.take_dead_letters() == [DeadLetters(0, 0, 2, DELIVERY_COUNT)]


def test_archiving_that_cannot_be_written_is_no_dead_letter_and_is_tried_again() -> None:
    """SHR-36: the next write contains it."""
    partition = acquired(4, deliveries=1)
    partition.settings = ShareSettings(delivery_count_limit=2, has_dead_letters=True)
    acknowledge(partition, (0, 0, [RELEASE]))
    written(partition)
    take_all(partition, 4)
    partition.expire_locks(10**6)
    assert partition.is_archiving_unwritten
    assert StateBatch(0, 0, 3, 2) in written(partition, FAILED).batches
    assert not partition.has_dead_letters
    assert partition.is_archiving_unwritten
    assert StateBatch(0, 0, 3, 2) in written(partition).batches
    assert partition.take_dead_letters() == [DeadLetters(0, 0, 2, DELIVERY_COUNT)]


def test_a_rejection_that_cannot_be_written_is_no_dead_letter() -> None:
    """SHR-17, SHR-36: the member has the record still."""
    partition = acquired(2)
    acknowledge(partition, (0, 1, [REJECT]))
    written(partition, FAILED)
    assert not partition.has_dead_letters
    acknowledge(partition, (0, 1, [ACCEPT]))
    written(partition)
    assert partition.start_offset == 2
    assert not partition.has_dead_letters


def test_what_a_leader_before_was_archiving_becomes_a_dead_letter() -> None:
    """SHR-36: why is told from the number of deliveries, as it is not stored."""
    stored = [StateBatch(0, 1, 3, 1), StateBatch(2, 4, 3, 5), StateBatch(5, 5, 2, 1)]
    partition = SharePartition.load(0, stored, ShareSettings(has_dead_letters=True))
    assert states(partition)[0] == (0, 1, "archiving")
    letters = partition.take_dead_letters()
    assert letters == [DeadLetters(0, 1, 1, REJECTED), DeadLetters(2, 4, 5, DELIVERY_COUNT)]
    partition.finish_dead_letters(letters)
    assert partition.start_offset == 6


def test_dead_letters_of_what_the_log_has_no_more_end_quietly() -> None:
    """SHR-7, SHR-36."""
    partition = acquired(6)
    acknowledge(partition, (0, 1, [REJECT]), (4, 5, [REJECT]))
    written(partition)
    letters = partition.take_dead_letters()
    partition.log_start_moved(5)
    partition.finish_dead_letters(letters)
    assert partition.start_offset == 6
    acknowledged = acquired(2)
    acknowledge(acknowledged, (0, 1, [REJECT]))
    written(acknowledged)
    letters = acknowledged.take_dead_letters()
    acknowledged.log_start_moved(10)
    acknowledged.finish_dead_letters(letters)
    assert acknowledged.start_offset == 10


def test_rejections_for_different_reasons_keep_them() -> None:
    """SHR-37: neighbours in one write are told apart."""
    partition = acquired(2, deliveries=2, limit=2)
    acknowledge(partition, (0, 0, [REJECT]), (1, 1, [RELEASE]))
    written(partition)
    assert partition.take_dead_letters() == [
        DeadLetters(0, 0, 2, REJECTED),
        DeadLetters(1, 1, 2, DELIVERY_COUNT),
    ]
    assert partition.offsets.counts[RecordState.ARCHIVING] == 2


def test_without_a_topic_for_them_there_are_no_dead_letters() -> None:
    """SHR-35: from the next acknowledgement on, should the setting change."""
    partition = acquired(3)
    partition.settings = ShareSettings(has_dead_letters=False)
    acknowledge(partition, (0, 2, [REJECT]))
    assert written(partition).batches == [StateBatch(0, 2, 4, 1)]
    assert not partition.has_dead_letters

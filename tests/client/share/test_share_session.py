"""The client's end of a share session: epochs, and what requests name."""

import pytest

from barnabas_client.share.acquisition import TopicIdPartition
from barnabas_client.share.pending_acknowledgements import (
    PartitionAcknowledgements,
    PendingAcknowledgements,
)
from barnabas_client.share.records import AcknowledgedRange, AcknowledgeType
from barnabas_client.share.share_session import ShareFetchLimits, ShareSession, next_epoch
from barnabas_protocol.messages.share_fetch import ShareFetchRequest
from tests.client.share.acquired import TOPIC_ID, acquisition

LIMITS = ShareFetchLimits(
    max_wait_ms=500, min_bytes=1, max_bytes=1000, max_records=10, acquire_mode=0
)
P0, P1, P2 = (TopicIdPartition(TOPIC_ID, number) for number in range(3))


def acknowledged(number: int = 0, kind: int = AcknowledgeType.ACCEPT) -> PartitionAcknowledgements:
    pending = PendingAcknowledgements()
    pending.add(acquisition(number), [AcknowledgedRange(4, 6, kind)])
    (one,) = pending.take(lambda *_: True)
    return one


def named(request: ShareFetchRequest) -> tuple[list[int], list[int]]:
    """The partitions that a fetch names, and those that it forgets."""
    return (
        [one.partition_index for topic in request.topics for one in topic.partitions],
        [number for topic in request.forgotten_topics_data for number in topic.partitions],
    )


def opened(*partitions: TopicIdPartition) -> ShareSession:
    session = ShareSession("g", "me")
    session.build_fetch(partitions, [], LIMITS)
    session.on_success()
    return session


def test_a_session_opens_with_all_partitions_and_then_names_only_changes() -> None:
    """SHR-20, SHR-41."""
    session = ShareSession("g", "me")
    assert not session.is_open
    request = session.build_fetch([P0, P1], [], LIMITS)
    assert (request.group_id, request.member_id, request.share_session_epoch) == ("g", "me", 0)
    assert named(request) == ([0, 1], [])
    session.on_success()
    request = session.build_fetch([P1, P2], [], LIMITS)
    assert request.share_session_epoch == 1
    assert named(request) == ([2], [0])
    session.on_success()
    assert named(session.build_fetch([P1, P2], [], LIMITS)) == ([], [])


def test_a_fetch_names_partitions_to_acknowledge() -> None:
    """SHR-15: one type for each range."""
    request = opened(P0, P1).build_fetch([P0, P1], [acknowledged()], LIMITS)
    (topic,) = request.topics
    (partition,) = topic.partitions
    (batch,) = partition.acknowledgement_batches
    assert (batch.first_offset, batch.last_offset, batch.acknowledge_types) == (4, 6, [1])


def test_a_fetch_cannot_acknowledge_what_it_opens_or_would_add() -> None:
    """SHR-20: the broker refuses the one, and would fetch from the other for ever."""
    with pytest.raises(AssertionError):
        ShareSession("g", "me").build_fetch([P0], [acknowledged()], LIMITS)
    with pytest.raises(AssertionError):
        opened(P1).build_fetch([P1], [acknowledged(0)], LIMITS)


def test_both_apis_share_the_counter_and_the_last_request_ends_the_session() -> None:
    """SHR-20."""
    session = opened(P0)
    assert session.build_acknowledge([acknowledged()]).share_session_epoch == 1
    session.on_success()
    assert session.build_fetch([P0], [], LIMITS).share_session_epoch == 2
    session.on_success()
    final = session.build_acknowledge([acknowledged(1)], is_final=True)
    assert final.share_session_epoch == -1
    assert final.topics[0].partitions[0].partition_index == 1


def test_a_renewal_is_announced() -> None:
    """SHR-15, SHR-19: type 4 needs the flag."""
    session = opened(P0)
    assert not session.build_acknowledge([acknowledged()]).is_renew_ack
    assert session.build_acknowledge([acknowledged(0, AcknowledgeType.RENEW)]).is_renew_ack


def test_a_lost_session_is_opened_anew_with_another_number() -> None:
    """SHR-41: everything is named again."""
    session = opened(P0)
    number = session.number
    session.reset()
    assert not session.is_open
    assert session.number == number + 1
    request = session.build_fetch([P0], [], LIMITS)
    assert request.share_session_epoch == 0
    assert named(request) == ([0], [])


def test_epochs_begin_at_1_again_behind_the_largest_number() -> None:
    """SHR-20: 0 would open another session."""
    assert [next_epoch(0), next_epoch(1), next_epoch((1 << 31) - 1)] == [1, 2, 1]

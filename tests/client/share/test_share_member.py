"""The pure member of a share group: what heartbeats carry, and what answers mean."""

import pytest

from barnabas_client.consumer.group.rebalance_steps import Reaction
from barnabas_client.errors import AuthorizationError, BarnabasError, RejectedError
from barnabas_client.share.acquisition import TopicIdPartition
from barnabas_client.share.share_member import ShareMember, ShareMemberState
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

TOPIC_ID = b"t" * 16
TOPICS = frozenset({"t", "u"})


def new_member() -> ShareMember:
    member = ShareMember("g", "me", rack_id="r")
    member.join()
    return member


def answer(epoch: int, *partitions: int, is_changed: bool = True) -> ShareGroupHeartbeatResponse:
    rows = [TopicPartitions(topic_id=TOPIC_ID, partitions=list(partitions))]
    return ShareGroupHeartbeatResponse(
        member_id="me",
        member_epoch=epoch,
        heartbeat_interval_ms=3000,
        assignment=Assignment(topic_partitions=rows) if is_changed else None,
    )


def failure(code: ErrorCode) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(error_code=code, error_message="because")


def joined() -> ShareMember:
    member = new_member()
    member.heartbeat_request(TOPICS)
    assert member.on_heartbeat_response(answer(3, 0, 1), 0) is Reaction.GO_ON
    return member


def test_a_join_carries_all_fields_and_later_heartbeats_only_changes() -> None:
    """SHR-28: the client makes the member id."""
    member = new_member()
    assert member.is_heartbeat_urgent(TOPICS)
    request = member.heartbeat_request(TOPICS)
    assert (request.group_id, request.member_id, request.member_epoch) == ("g", "me", 0)
    assert (request.rack_id, request.subscribed_topic_names) == ("r", ["t", "u"])
    assert not member.is_heartbeat_urgent(TOPICS)
    member.on_heartbeat_response(answer(3, 0), 0)
    request = member.heartbeat_request(TOPICS)
    assert (request.member_epoch, request.rack_id, request.subscribed_topic_names) == (
        3,
        None,
        None,
    )
    other = frozenset({"u"})
    assert member.is_heartbeat_urgent(other)
    assert member.heartbeat_request(other).subscribed_topic_names == ["u"]


def test_an_assignment_holds_at_once_and_until_another_one_comes() -> None:
    """SHR-28: a member jumps to its target; no assignment in a response means no change."""
    member = joined()
    assert member.state is ShareMemberState.STABLE
    assert member.assigned == {TopicIdPartition(TOPIC_ID, 0), TopicIdPartition(TOPIC_ID, 1)}
    member.on_heartbeat_response(answer(4, is_changed=False), 3)
    assert len(member.assigned) == 2
    member.on_heartbeat_response(answer(5, 7), 4)
    assert member.assigned == {TopicIdPartition(TOPIC_ID, 7)}
    assert member.heartbeat_interval_ms == 3000


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH])
def test_a_fenced_member_joins_again_at_once_under_its_id(code: ErrorCode) -> None:
    """SHR-28: it has nothing meanwhile; one that is refused while joining waits first."""
    member = joined()
    assert member.on_heartbeat_response(failure(code), 3) is Reaction.GO_ON
    assert (member.state, member.assigned) == (ShareMemberState.JOINING, frozenset())
    request = member.heartbeat_request(TOPICS)
    assert (request.member_id, request.member_epoch) == ("me", 0)
    assert request.subscribed_topic_names == ["t", "u"]
    assert member.on_heartbeat_response(failure(code), 0) is Reaction.WAIT


@pytest.mark.parametrize(
    ("code", "reaction"),
    [
        (ErrorCode.NOT_COORDINATOR, Reaction.FIND_COORDINATOR),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, Reaction.FIND_COORDINATOR),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Reaction.WAIT),
    ],
)
def test_a_coordinator_that_is_away_costs_nothing(code: ErrorCode, reaction: Reaction) -> None:
    """SHR-28: the assignment stays, and the next heartbeat carries all fields."""
    member = joined()
    assert member.on_heartbeat_response(failure(code), 3) is reaction
    assert len(member.assigned) == 2
    assert member.heartbeat_request(TOPICS).subscribed_topic_names == ["t", "u"]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, AuthorizationError),
        (ErrorCode.GROUP_MAX_SIZE_REACHED, RejectedError),
    ],
)
def test_what_joining_again_does_not_help_against_is_raised(
    code: ErrorCode, kind: type[BarnabasError]
) -> None:
    """SHR-28: the member sends nothing more until the program polls."""
    member = joined()
    with pytest.raises(kind, match="because"):
        member.on_heartbeat_response(failure(code), 3)
    assert member.state is ShareMemberState.FENCED
    assert not member.sends_heartbeats
    member.join()
    assert member.sends_heartbeats


def test_a_member_that_left_takes_no_late_response() -> None:
    """SHR-28: -1 leaves."""
    member = joined()
    assert member.leave_request().member_epoch == -1
    member.on_left()
    member.on_heartbeat_response(answer(4, 0), 3)
    assert (member.state, member.is_member) == (ShareMemberState.UNJOINED, False)
    assert member.assigned == frozenset()

"""The pure member of a classic group: each answer in each state, and what is given up when."""

import pytest

from barnabas_client.consumer.assignors import (
    Assignor,
    CooperativeStickyAssignor,
    RangeAssignor,
    StickyAssignor,
)
from barnabas_client.consumer.group.classic_member import ClassicMember, ClassicMemberState
from barnabas_client.consumer.group.rebalance_steps import Reaction
from barnabas_client.errors import (
    AuthorizationError,
    BarnabasError,
    ClientBrokenError,
    FencedError,
    UsageError,
)
from barnabas_protocol.consumer_protocol import (
    Assignment,
    decode_subscription,
    encode_assignment,
)
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.join_group import JoinGroupResponse
from barnabas_protocol.messages.sync_group import SyncGroupResponse

TOPICS = frozenset({"t"})
T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


def new_member(*assignors: Assignor, instance: str | None = None) -> ClassicMember:
    return ClassicMember(
        "group",
        assignors or (RangeAssignor(),),
        session_timeout_ms=45_000,
        rebalance_timeout_ms=300_000,
        group_instance_id=instance,
    )


def join_answer(
    error: ErrorCode = ErrorCode.NONE,
    *,
    generation: int = 1,
    leader: str = "other",
    name: str = "range",
    skip: bool = False,
) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=error,
        generation_id=generation,
        protocol_type="consumer",
        protocol_name=name,
        leader=leader,
        member_id="me",
        skip_assignment=skip,
        members=[],
    )


def sync_answer(
    error: ErrorCode = ErrorCode.NONE, *numbers: int, name: str | None = None
) -> SyncGroupResponse:
    partitions = {"t": numbers} if numbers else {}
    return SyncGroupResponse(
        error_code=error,
        protocol_name=name,
        assignment=encode_assignment(Assignment(partitions=partitions)),
    )


def joining(member: ClassicMember, *owned: TopicPartition) -> ClassicMember:
    member.begin_rebalance(owned, TOPICS)
    member.on_revoked()
    member.join_request(TOPICS, owned)
    return member


def syncing(member: ClassicMember, *owned: TopicPartition, generation: int = 1) -> ClassicMember:
    name = member.join_request((), ()).protocols[0].name
    joining(member, *owned).on_join_response(join_answer(generation=generation, name=name))
    return member


def stable(member: ClassicMember, *numbers: int) -> ClassicMember:
    syncing(member).on_sync_response(sync_answer(ErrorCode.NONE, *numbers))
    member.apply((), TOPICS)
    return member


def test_a_member_joins_with_the_id_that_the_broker_gave_it() -> None:
    """GRP-4: a first JoinGroup gets an id and MEMBER_ID_REQUIRED; the second one has it."""
    member = joining(new_member())
    assert member.on_join_response(join_answer(ErrorCode.MEMBER_ID_REQUIRED)) is Reaction.GO_ON
    assert member.state is ClassicMemberState.JOINING
    assert member.join_request(TOPICS, ()).member_id == "me"
    member.on_join_response(join_answer())
    assert member.state is ClassicMemberState.SYNCING
    assert not member.accepts_commits
    member.on_sync_response(sync_answer(ErrorCode.NONE, 0, 1))
    assert member.state is ClassicMemberState.ASSIGNED
    change = member.apply((), TOPICS)
    assert (change.assigned, change.revoked, change.added) == ((T0, T1), (), (T0, T1))
    assert not member.is_rebalance_due


@pytest.mark.parametrize(
    ("code", "reaction"),
    [
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Reaction.WAIT),
        (ErrorCode.REBALANCE_IN_PROGRESS, Reaction.WAIT),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, Reaction.FIND_COORDINATOR),
        (ErrorCode.NOT_COORDINATOR, Reaction.FIND_COORDINATOR),
    ],
    ids=lambda value: value.name,
)
def test_joining_is_repeated_where_that_helps(code: ErrorCode, reaction: Reaction) -> None:
    """The member stays what it is and asks again, of the same broker or of another."""
    member = joining(new_member())
    assert member.on_join_response(join_answer(code)) is reaction
    assert member.state is ClassicMemberState.JOINING


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, AuthorizationError),
        (ErrorCode.FENCED_INSTANCE_ID, FencedError),
        (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, UsageError),
        (ErrorCode.INVALID_SESSION_TIMEOUT, UsageError),
        (ErrorCode.INVALID_GROUP_ID, UsageError),
        (ErrorCode.GROUP_MAX_SIZE_REACHED, BarnabasError),
        (ErrorCode.UNKNOWN_SERVER_ERROR, ClientBrokenError),
    ],
    ids=lambda value: getattr(value, "name", "") or value.__name__,
)
def test_what_no_retry_helps_against_is_raised_in_every_step(
    code: ErrorCode, kind: type[BarnabasError]
) -> None:
    """The error says which group; the member is out, and tries anew if the program polls on."""
    member = joining(new_member())
    with pytest.raises(kind, match="'group'"):
        member.on_join_response(join_answer(code))
    assert member.state is ClassicMemberState.UNJOINED
    member = syncing(new_member())
    with pytest.raises(kind):
        member.on_sync_response(sync_answer(code))
    assert member.state is ClassicMemberState.UNJOINED
    member = stable(new_member(), 0)
    with pytest.raises(kind):
        member.on_error_code(code, member.identity())
    assert member.state is ClassicMemberState.UNJOINED


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_a_member_that_fell_out_has_lost_its_partitions(code: ErrorCode) -> None:
    """CON-11: lost, not revoked; with ILLEGAL_GENERATION the member id is still good."""
    for stage in ("join", "sync", "heartbeat"):
        member = new_member(CooperativeStickyAssignor())
        stable(member, 0, 1)
        if stage == "join":
            member.request_rejoin("test")
            joining(member, T0, T1).on_join_response(join_answer(code))
        elif stage == "sync":
            member.request_rejoin("test")
            syncing(member, T0, T1, generation=2).on_sync_response(sync_answer(code))
        else:
            member.on_error_code(code, member.identity())
        assert member.state is ClassicMemberState.UNJOINED, stage
        assert member.identity().generation_id == -1
        assert member.member_id == ("me" if code is ErrorCode.ILLEGAL_GENERATION else "")
        given_up = member.begin_rebalance((T0, T1), TOPICS)
        assert given_up.is_lost
        assert given_up.partitions == (T0, T1)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ],
    ids=lambda code: code.name,
)
def test_a_rebalance_that_is_overtaken_begins_with_joining_again(code: ErrorCode) -> None:
    """GRP-13: the member keeps its id and generation, so a cooperative one keeps its partitions."""
    member = new_member(CooperativeStickyAssignor())
    stable(member, 0)
    member.request_rejoin("test")
    syncing(member, T0, generation=2).on_sync_response(sync_answer(code))
    assert member.state is ClassicMemberState.JOINING
    request = member.join_request(TOPICS, (T0,))
    assert request.member_id == "me"
    subscription = decode_subscription(request.protocols[0].metadata)
    assert subscription.owned_partitions == {"t": (0,)}
    assert subscription.generation_id == 2


def test_a_lost_answer_to_sync_begins_with_joining_again() -> None:
    """Whether the coordinator took the assignment is unknown: a new generation settles it."""
    member = syncing(new_member())
    member.on_response_lost()
    assert member.state is ClassicMemberState.JOINING


def test_an_eager_member_gives_up_everything_and_a_cooperative_one_what_it_unsubscribed() -> None:
    """KIP-429: cooperative members read on while the group rebalances."""
    eager = stable(new_member(RangeAssignor(), CooperativeStickyAssignor()), 0, 1)
    eager.request_rejoin("test")
    given_up = eager.begin_rebalance((T0, T1), TOPICS)
    assert (given_up.partitions, given_up.is_lost) == ((T0, T1), False)
    cooperative = stable(new_member(CooperativeStickyAssignor()), 0, 1)
    cooperative.request_rejoin("test")
    assert cooperative.begin_rebalance((T0, T1), TOPICS).partitions == ()
    other = stable(new_member(CooperativeStickyAssignor()), 0)
    other.request_rejoin("test")
    assert other.begin_rebalance((T0, T1), frozenset({"u"})).partitions == (T0, T1)


def test_a_cooperative_member_revokes_what_moves_and_joins_again() -> None:
    """KIP-429: the partition is given away in the rebalance that this one asks for."""
    member = new_member(CooperativeStickyAssignor())
    stable(member, 0, 1, 2)
    member.on_error_code(ErrorCode.REBALANCE_IN_PROGRESS, member.identity())
    assert member.is_rebalance_due
    syncing(member, T0, T1, T2, generation=2).on_sync_response(sync_answer(ErrorCode.NONE, 0, 2))
    change = member.apply((T0, T1, T2), TOPICS)
    assert (change.assigned, change.revoked, change.added) == ((T0, T2), (T1,), ())
    assert member.is_rebalance_due
    request = joining(member, T0, T2).join_request(TOPICS, (T0, T2))
    assert decode_subscription(request.protocols[0].metadata).owned_partitions == {"t": (0, 2)}


def test_a_heartbeat_error_of_an_earlier_generation_changes_nothing() -> None:
    """The answer was on its way while the group met anew."""
    member = stable(new_member(), 0)
    sent_as = member.identity()
    member.request_rejoin("test")
    syncing(member, generation=2).on_sync_response(sync_answer(ErrorCode.NONE, 0))
    member.apply((), TOPICS)
    member.on_error_code(ErrorCode.ILLEGAL_GENERATION, sent_as)
    assert member.state is ClassicMemberState.STABLE
    member.on_error_code(ErrorCode.REBALANCE_IN_PROGRESS, sent_as)
    assert not member.is_rebalance_due


def test_answers_that_come_after_leaving_change_nothing() -> None:
    member = joining(new_member())
    member.on_left("test")
    assert member.on_join_response(join_answer()) is Reaction.GO_ON
    assert member.state is ClassicMemberState.UNJOINED
    assert member.on_sync_response(sync_answer()) is Reaction.GO_ON
    assert member.state is ClassicMemberState.UNJOINED


def test_a_heartbeat_tells_where_the_coordinator_is_or_that_it_loads() -> None:
    member = stable(new_member(), 0)
    identity = member.identity()
    assert member.on_error_code(ErrorCode.NOT_COORDINATOR, identity) is Reaction.FIND_COORDINATOR
    assert member.on_error_code(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, identity) is Reaction.WAIT
    assert member.on_error_code(ErrorCode.NONE, identity) is Reaction.GO_ON
    assert member.state is ClassicMemberState.STABLE


def test_heartbeats_go_out_while_callbacks_run_but_not_behind_a_parked_request() -> None:
    """GRP-15: a parked join or sync is a sign of life, and a heartbeat would wait behind it."""
    member = stable(new_member(), 0)
    assert member.sends_heartbeats
    member.request_rejoin("test")
    member.begin_rebalance((T0,), TOPICS)
    assert member.sends_heartbeats
    assert member.accepts_commits
    member.on_revoked()
    assert not member.sends_heartbeats
    assert not member.accepts_commits
    member.join_request(TOPICS, ())
    member.on_join_response(join_answer(generation=2))
    assert not member.sends_heartbeats
    member.on_sync_response(sync_answer(ErrorCode.NONE, 0))
    assert member.sends_heartbeats
    assert member.accepts_commits


def test_a_static_leader_that_came_back_is_told_not_to_assign() -> None:
    """KIP-814: it watches the topics all the same."""
    member = joining(new_member(instance="i"))
    assert member.join_request(TOPICS, ()).group_instance_id == "i"
    member.on_join_response(join_answer(leader="me", skip=True))
    assert member.is_leader
    assert not member.must_assign


def test_the_group_s_choice_must_be_one_of_the_offered() -> None:
    member = joining(new_member(RangeAssignor(), StickyAssignor()))
    request = member.join_request(TOPICS, ())
    assert [protocol.name for protocol in request.protocols] == ["range", "sticky"]
    with pytest.raises(ClientBrokenError, match="not offered"):
        member.on_join_response(join_answer(name="roundrobin"))
    member = syncing(new_member())
    with pytest.raises(UsageError):
        member.on_sync_response(sync_answer(ErrorCode.NONE, 0, name="roundrobin"))


def test_an_assignment_that_cannot_be_read_is_the_leader_s_fault() -> None:
    member = syncing(new_member())
    with pytest.raises(ClientBrokenError, match="cannot be read"):
        member.on_sync_response(SyncGroupResponse(assignment=b"\x00\x01\x00"))
    assert member.state is ClassicMemberState.UNJOINED


def test_what_was_unsubscribed_meanwhile_is_not_taken() -> None:
    """The program must not get records of a topic that it no longer wants."""
    member = syncing(new_member())
    member.on_sync_response(sync_answer(ErrorCode.NONE, 0, 1))
    change = member.apply((), frozenset({"u"}))
    assert change.assigned == ()
    assert member.is_rebalance_due


def test_sticky_user_data_has_the_last_assignment_and_its_generation() -> None:
    """The eager member has given everything up when it asks: the leader learns it from here."""
    member = stable(new_member(StickyAssignor()), 0, 2)
    member.request_rejoin("test")
    member.begin_rebalance((T0, T2), TOPICS)
    member.on_revoked()
    metadata = decode_subscription(member.join_request(TOPICS, ()).protocols[0].metadata)
    assert metadata.owned_partitions == {}
    assert metadata.user_data is not None
    assert StickyAssignor().user_data((), {"t": (0, 2)}, 1) == metadata.user_data


def test_leaving_names_the_member_and_the_reason() -> None:
    """KIP-800; versions before 3 have a single member id."""
    member = stable(new_member(), 0)
    request = member.leave_request("test")
    assert request.member_id == request.members[0].member_id == "me"
    assert request.members[0].reason == "test"
    member.on_left("test")
    assert member.begin_rebalance((T0,), TOPICS).is_lost

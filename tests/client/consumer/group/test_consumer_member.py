"""The pure member of a group that the broker leads: what is told when, and what answers mean."""

import pytest

from barnabas_client.consumer.group.consumer_member import (
    ConsumerMember,
    ConsumerMemberState,
    MemberSubscription,
)
from barnabas_client.consumer.group.rebalance_steps import Reaction
from barnabas_client.errors import AuthorizationError, BarnabasError, FencedError, UnsupportedError
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

A, B = b"a" * 16, b"b" * 16
NAMES = {A: "t", B: "u"}
SUBSCRIPTION = MemberSubscription(topics=frozenset({"t", "u"}))
State = ConsumerMemberState


def new_member(instance: str | None = None) -> ConsumerMember:
    member = ConsumerMember(
        "group",
        "me",
        rebalance_timeout_ms=300_000,
        group_instance_id=instance,
        rack_id="r",
        server_assignor="uniform",
    )
    member.join()
    return member


def answer(
    epoch: int, target: dict[bytes, tuple[int, ...]] | None = None
) -> ConsumerGroupHeartbeatResponse:
    assignment = None
    if target is not None:
        assignment = Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=list(numbers))
                for topic_id, numbers in target.items()
            ]
        )
    return ConsumerGroupHeartbeatResponse(
        member_id="me", member_epoch=epoch, heartbeat_interval_ms=3000, assignment=assignment
    )


def failure(code: ErrorCode) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=code, error_message="because")


def exchange(
    member: ConsumerMember,
    response: ConsumerGroupHeartbeatResponse,
    subscription: MemberSubscription = SUBSCRIPTION,
) -> ConsumerGroupHeartbeatRequest:
    epoch = member.member_epoch
    request = member.heartbeat_request(subscription)
    member.on_heartbeat_response(response, epoch)
    return request


def stable(member: ConsumerMember, target: dict[bytes, tuple[int, ...]]) -> list[TopicPartition]:
    exchange(member, answer(1, target))
    plan = member.reconciliation(NAMES, ())
    member.on_reconciled(plan)
    exchange(member, answer(1))
    assert member.state is State.STABLE
    return list(plan.change.assigned)


def told(request: ConsumerGroupHeartbeatRequest) -> dict[bytes, list[int]] | None:
    if request.topic_partitions is None:
        return None
    return {topic.topic_id: topic.partitions for topic in request.topic_partitions}


def test_joining_tells_everything_and_later_heartbeats_what_has_changed() -> None:
    """CG-3, CG-5: the first request has timeout and subscription and owns nothing."""
    member = new_member()
    first = exchange(member, answer(1, {A: (0, 1)}))
    assert (first.member_id, first.member_epoch, first.rebalance_timeout_ms) == ("me", 0, 300_000)
    assert (first.rack_id, first.server_assignor) == ("r", "uniform")
    assert first.subscribed_topic_names == ["t", "u"]
    assert first.subscribed_topic_regex is None
    assert told(first) == {}
    assert member.state is State.RECONCILING
    while_reconciling = exchange(member, answer(1))
    assert told(while_reconciling) is None
    assert while_reconciling.subscribed_topic_names is None
    assert while_reconciling.rebalance_timeout_ms == -1
    plan = member.reconciliation(NAMES, ())
    assert plan.change.added == (TopicPartition("t", 0), TopicPartition("t", 1))
    member.on_reconciled(plan)
    assert member.is_heartbeat_urgent(SUBSCRIPTION)
    assert told(exchange(member, answer(1))) == {A: [0, 1]}
    assert member.state is State.STABLE
    assert not member.is_heartbeat_urgent(SUBSCRIPTION)
    assert told(exchange(member, answer(1))) is None
    assert member.heartbeat_interval_ms == 3000


def test_revoked_partitions_are_told_after_they_are_given_up() -> None:
    """CG-4: revoke first, confirm, then get the new epoch and more."""
    member = new_member()
    owned = stable(member, {A: (0, 1), B: (0,)})
    request = exchange(member, answer(1, {A: (0,)}))
    assert told(request) is None
    assert member.state is State.RECONCILING
    assert told(exchange(member, answer(1))) is None
    plan = member.reconciliation(NAMES, owned)
    assert plan.change.revoked == (TopicPartition("t", 1), TopicPartition("u", 0))
    assert plan.change.added == ()
    member.on_reconciled(plan)
    assert told(exchange(member, answer(2, {A: (0,), B: (1,)}))) == {A: [0]}
    assert member.state is State.RECONCILING
    assert member.identity().generation_id == 2


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_fenced_member_abandons_everything_and_joins_again(code: ErrorCode) -> None:
    """CG-3: in every state; with the same id, at epoch 0, owning nothing."""
    for stage in (State.JOINING, State.RECONCILING, State.ACKNOWLEDGING, State.STABLE):
        member = new_member()
        if stage is not State.JOINING:
            exchange(member, answer(4, {A: (0,)}))
        if stage in (State.ACKNOWLEDGING, State.STABLE):
            member.on_reconciled(member.reconciliation(NAMES, ()))
        if stage is State.STABLE:
            exchange(member, answer(4))
        assert member.state is stage
        exchange(member, failure(code))
        assert member.state is State.FENCED
        assert not member.sends_heartbeats
        assert member.identity().generation_id == -1
        member.join()
        request = member.heartbeat_request(SUBSCRIPTION)
        assert (request.member_id, request.member_epoch) == ("me", 0)
        assert told(request) == {}
        assert request.subscribed_topic_names == ["t", "u"]


def test_a_member_whose_group_is_gone_joins_again() -> None:
    """CG-3: as after a long sleep, when the group was empty and went; a join may be refused so."""
    member = new_member()
    stable(member, {A: (0,)})
    exchange(member, failure(ErrorCode.GROUP_ID_NOT_FOUND))
    assert member.state is State.FENCED
    member.join()
    with pytest.raises(BarnabasError):
        exchange(member, failure(ErrorCode.GROUP_ID_NOT_FOUND))


@pytest.mark.parametrize(
    ("code", "reaction"),
    [
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Reaction.WAIT),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, Reaction.FIND_COORDINATOR),
        (ErrorCode.NOT_COORDINATOR, Reaction.FIND_COORDINATOR),
    ],
    ids=lambda value: value.name,
)
def test_after_a_passing_error_a_heartbeat_says_everything(
    code: ErrorCode, reaction: Reaction
) -> None:
    """CG-5: a full heartbeat after errors, for the coordinator may be another one."""
    member = new_member()
    stable(member, {A: (0,)})
    member.heartbeat_request(SUBSCRIPTION)
    assert member.on_heartbeat_response(failure(code), member.member_epoch) is reaction
    request = member.heartbeat_request(SUBSCRIPTION)
    assert told(request) == {A: [0]}
    assert request.subscribed_topic_names == ["t", "u"]
    assert request.member_epoch == 1


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, AuthorizationError),
        (ErrorCode.UNRELEASED_INSTANCE_ID, FencedError),
        (ErrorCode.FENCED_INSTANCE_ID, FencedError),
        (ErrorCode.UNSUPPORTED_ASSIGNOR, UnsupportedError),
        (ErrorCode.UNSUPPORTED_VERSION, UnsupportedError),
        (ErrorCode.GROUP_MAX_SIZE_REACHED, BarnabasError),
        (ErrorCode.INVALID_REQUEST, BarnabasError),
    ],
    ids=lambda value: getattr(value, "name", "") or value.__name__,
)
def test_what_no_retry_helps_against_is_raised(code: ErrorCode, kind: type[BarnabasError]) -> None:
    member = new_member()
    stable(member, {A: (0,)})
    member.heartbeat_request(SUBSCRIPTION)
    with pytest.raises(kind, match="because"):
        member.on_heartbeat_response(failure(code), member.member_epoch)
    assert member.state is State.FENCED


def test_topics_without_a_name_wait_for_metadata() -> None:
    """The broker may know a topic before the client does."""
    member = new_member()
    exchange(member, answer(1, {A: (0,), B: (0,)}))
    plan = member.reconciliation({A: "t"}, ())
    assert not plan.is_complete
    assert plan.is_progress
    member.on_reconciled(plan)
    assert told(exchange(member, answer(1))) == {A: [0]}
    assert member.state is State.RECONCILING
    again = member.reconciliation({A: "t"}, plan.change.assigned)
    assert not again.is_progress
    complete = member.reconciliation(NAMES, plan.change.assigned)
    assert complete.is_progress
    assert complete.change.added == (TopicPartition("u", 0),)


def test_a_topic_made_again_under_its_name_is_another_one() -> None:
    """Positions of the deleted topic mean nothing in the new one."""
    member = new_member()
    owned = stable(member, {A: (0,)})
    exchange(member, answer(2, {B: (0,)}))
    plan = member.reconciliation({B: "t"}, owned)
    assert plan.change.revoked == plan.change.added == (TopicPartition("t", 0),)


def test_a_changed_subscription_is_told_once() -> None:
    """Going from a pattern to names takes the pattern back with an empty one."""
    member = new_member()
    pattern = MemberSubscription(pattern="t.*")
    request = exchange(member, answer(1, {}), pattern)
    assert (request.subscribed_topic_names, request.subscribed_topic_regex) == ([], "t.*")
    member.on_reconciled(member.reconciliation(NAMES, ()))
    exchange(member, answer(1), pattern)
    assert not member.is_heartbeat_urgent(pattern)
    assert member.is_heartbeat_urgent(SUBSCRIPTION)
    request = exchange(member, answer(1), SUBSCRIPTION)
    assert (request.subscribed_topic_names, request.subscribed_topic_regex) == (["t", "u"], "")
    assert not member.is_heartbeat_urgent(SUBSCRIPTION)
    assert exchange(member, answer(1), SUBSCRIPTION).subscribed_topic_names is None


def test_leaving_for_good_and_for_now() -> None:
    """CG-3: epoch -1 leaves, -2 keeps a static member's partitions for it."""
    member = new_member("i")
    stable(member, {A: (0,)})
    assert member.leave_request(is_for_good=False).member_epoch == -2
    assert member.leave_request(is_for_good=True).member_epoch == -1
    assert new_member().leave_request(is_for_good=False).member_epoch == -1
    epoch = member.member_epoch
    member.on_left()
    assert member.on_heartbeat_response(answer(7, {A: (0,)}), epoch) is Reaction.GO_ON
    assert member.state is State.UNJOINED


def test_an_old_broker_makes_the_member_id() -> None:
    """Version 0 of the heartbeat: the answer's id counts."""
    member = new_member()
    response = answer(1, {})
    response.member_id = "theirs"
    exchange(member, response)
    assert member.heartbeat_request(SUBSCRIPTION).member_id == "theirs"


def test_an_assignment_that_changes_nothing_is_acknowledged() -> None:
    """An answer was lost that gave more; the broker takes it back and waits for the report."""
    member = new_member()
    stable(member, {A: (0,)})
    member.reset_sent_fields()
    exchange(member, answer(1, {A: (0,)}))
    assert member.is_heartbeat_urgent(SUBSCRIPTION)
    assert told(exchange(member, answer(1))) == {A: [0]}
    assert not member.is_heartbeat_urgent(SUBSCRIPTION)

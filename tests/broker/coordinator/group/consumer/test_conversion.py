"""Classic groups become consumer groups and the other way, with members of both kinds alive.

Source: CG-7.
"""

import pytest

from barnabas_broker.config.bounded_settings import Bounded
from barnabas_broker.coordinator.group.consumer.consumer_group import ConsumerGroupState
from barnabas_broker.coordinator.group.consumer.settings import MigrationPolicy
from barnabas_protocol.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from barnabas_protocol.errors import ErrorCode, KafkaError
from tests.broker.coordinator.group.consumer.consumer_model import ConsumerModel
from tests.support.group_model import GROUP, Ticket, subscription

AT_ONCE = Bounded(0, 0, 0)


def blob(*partitions: int, user_data: bytes | None = None) -> bytes:
    assigned = {"t": partitions} if partitions else {}
    return encode_assignment(Assignment(partitions=assigned, user_data=user_data))


def owning(*partitions: int) -> tuple[tuple[str, bytes], ...]:
    owned = {"t": partitions} if partitions else {}
    subscription = Subscription(topics=("t",), owned_partitions=owned)
    return (("cooperative-sticky", encode_subscription(subscription)),)


def classic_group(model: ConsumerModel, count: int = 2, **join: str) -> list[str]:
    """A stable classic group that shares four partitions."""
    tickets = [model.join(protocols=owning(), **join) for _ in range(count)]
    ids = [ticket.response.member_id if not ticket.is_parked else "" for ticket in tickets]
    while "" in ids or model.state() != "CompletingRebalance":
        tickets = [
            model.join(each, protocols=owning()) if each else ticket
            for each, ticket in zip(ids, tickets, strict=True)
        ]
        ids = [ticket.response.member_id if not ticket.is_parked else "" for ticket in tickets]
    generation = model.generation()
    share = 4 // count
    assignments = {
        each: blob(*range(index * share, (index + 1) * share)) for index, each in enumerate(ids)
    }
    leader = next(each for each, ticket in zip(ids, tickets, strict=True) if _leads(ticket))
    for each in sorted(ids, key=lambda one: one == leader):
        model.sync(each, generation, assignments if each == leader else None)
    assert model.state() == "Stable"
    return ids


def _leads(ticket: Ticket) -> bool:
    return bool(ticket.response.leader == ticket.response.member_id)


def given(ticket: Ticket) -> list[int]:
    assert ticket.error is ErrorCode.NONE
    return sorted(decode_assignment(ticket.response.assignment).partitions.get("t", ()))


def test_a_group_without_members_changes_its_kind_and_keeps_its_offsets() -> None:
    """CG-7: both ways, at the first join."""
    model = ConsumerModel({"t": 4})
    (member,) = classic_group(model, 1)
    model.commit({0: 5}, member, model.generation())
    model.leave(member)
    model.consumer_join("a")
    assert model.state() is None
    assert model.offsets() == {("t", 0): 5}
    model.restart()
    assert model.group().members.keys() == {"a"}
    model.beat("a", -1)
    model.join(protocols=owning())
    assert GROUP not in model.shard.consumer_groups
    assert model.state() == "CompletingRebalance"
    assert model.offsets() == {("t", 0): 5}


def test_a_join_that_is_refused_leaves_an_empty_consumer_group_as_it_is() -> None:
    """CG-7: its offsets belong to a group still."""
    model = ConsumerModel({"t": 4})
    model.consumer_join("a")
    model.beat("a", -1)
    assert model.join(session_ms=1).error is ErrorCode.INVALID_SESSION_TIMEOUT
    assert model.group().state is ConsumerGroupState.EMPTY
    model.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
    model.join(protocols=owning())
    assert model.group().state is ConsumerGroupState.EMPTY
    assert model.state() is None


def test_classic_members_go_on_beside_the_first_consumer_member() -> None:
    """CG-7: 27 tells them to join again; they give what they are to, and nobody else stops."""
    model = ConsumerModel({"t": 4}, assignment_interval_ms=AT_ONCE)
    first, second = classic_group(model)
    generation = model.generation()
    new = model.client("new").join()
    group = model.group()
    assert (group.classic_count, len(group.members)) == (2, 3)
    assert group.group_epoch == generation + 1
    assert new.count == 0
    assert model.heartbeat(first, generation) is ErrorCode.REBALANCE_IN_PROGRESS
    held = {first: (0, 1), second: (2, 3)}
    for _ in range(3):
        for member in (first, second):
            joined = model.join(member, protocols=owning(*held[member])).response
            assert (joined.error_code, joined.members) == (0, [])
            held[member] = tuple(given(model.sync(member, joined.generation_id)))
        new.step()
    assert sorted([new.count, *map(len, held.values())]) == [1, 1, 2]
    assert group.state is ConsumerGroupState.STABLE
    epoch = group.group_epoch
    assert model.heartbeat(first, epoch) is ErrorCode.NONE
    assert model.commit({held[first][0]: 9}, first, epoch) == {held[first][0]: ErrorCode.NONE}
    assert model.commit_error({0: 9}, first, epoch - 1) is ErrorCode.ILLEGAL_GENERATION


def test_parked_requests_of_a_classic_group_are_told_to_join_again() -> None:
    """CG-7: joins and syncs alike."""
    model = ConsumerModel({"t": 4})
    first, second = classic_group(model)
    parked = model.join(first, protocols=owning(0, 1, 2))
    assert parked.is_parked
    model.consumer_join("new")
    assert parked.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert set(model.group().members) == {first, second, "new"}


@pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.DOWNGRADE])
def test_a_classic_group_stays_one_where_the_policy_says_so(policy: MigrationPolicy) -> None:
    """CG-7: 69, and its members notice nothing."""
    model = ConsumerModel({"t": 4}, migration_policy=policy)
    first, _ = classic_group(model)
    generation = model.generation()
    with pytest.raises(KafkaError, match="is not a consumer group") as caught:
        model.consumer_join("new")
    assert caught.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert model.heartbeat(first, generation) is ErrorCode.NONE


def test_what_a_custom_assignor_has_to_say_would_be_lost() -> None:
    """CG-7: so such a group stays a classic one."""
    model = ConsumerModel({"t": 4})
    member = model.join(protocols=owning()).response.member_id
    model.sync(member, 1, {member: blob(0, user_data=b"mine")})
    with pytest.raises(KafkaError, match="custom assignor"):
        model.consumer_join("new")
    assert model.heartbeat(member, 1) is ErrorCode.NONE


def test_a_refused_upgrade_leaves_the_classic_group_alive() -> None:
    """OFS-5: with its sessions running."""
    model = ConsumerModel({"t": 4})
    first, second = classic_group(model)
    generation = model.generation()
    model.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
    with pytest.raises(KafkaError):
        model.consumer_join("new")
    model.fail_with = None
    assert GROUP not in model.shard.consumer_groups
    model.advance(9_000)
    assert model.heartbeat(first, generation) is ErrorCode.NONE
    model.advance(1_000)
    assert second not in model.shard.groups[GROUP].members
    assert model.state() == "PreparingRebalance"


def mixed(policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL) -> tuple[ConsumerModel, str]:
    """A consumer group of a classic member and `new`, both with two partitions."""
    model = ConsumerModel({"t": 4}, assignment_interval_ms=AT_ONCE, migration_policy=policy)
    (member,) = classic_group(model, 1)
    new = model.client("new").join()
    held: tuple[int, ...] = (0, 1, 2, 3)
    for _ in range(3):
        joined = model.join(member, protocols=owning(*held)).response
        held = tuple(given(model.sync(member, joined.generation_id)))
        new.step()
    assert (len(held), new.count) == (2, 2)
    return model, member


def test_the_group_is_classic_again_when_the_last_consumer_member_goes() -> None:
    """CG-7: the group epoch becomes the generation, and a rebalance starts."""
    model, member = mixed()
    epoch = model.group().group_epoch
    model.beat("new", -1)
    assert GROUP not in model.shard.consumer_groups
    assert (model.state(), model.generation()) == ("PreparingRebalance", epoch)
    assert model.heartbeat(member, epoch) is ErrorCode.REBALANCE_IN_PROGRESS
    joined = model.join(member, protocols=owning()).response
    assert joined.generation_id == epoch + 1
    assert given(model.sync(member, epoch + 1, {member: blob(0, 1, 2, 3)})) == [0, 1, 2, 3]
    model.restart()
    assert model.state() == "Stable"
    assert GROUP not in model.shard.consumer_groups


def test_the_group_is_classic_again_when_the_last_consumer_member_is_silent() -> None:
    """CG-7: fenced is gone, too."""
    model, member = mixed()
    epoch = model.group().group_epoch
    for _ in range(9):
        model.advance(5_000)
        model.heartbeat(member, epoch)
    assert GROUP not in model.shard.consumer_groups
    assert model.state() == "PreparingRebalance"


def test_the_rebalance_of_a_group_that_is_classic_again_outlives_its_coordinator() -> None:
    """CG-7, OFS-3: the record knows no leader who has assigned what the others had."""
    model, member = mixed()
    epoch = model.group().group_epoch
    model.beat("new", -1)
    model.restart()
    assert model.heartbeat(member, epoch) is ErrorCode.REBALANCE_IN_PROGRESS


def test_members_keep_what_they_have_on_the_way_to_classic_and_back() -> None:
    """CG-4, CG-7: a target is nothing that a member has, or has let go."""
    model = ConsumerModel({"t": 4}, assignment_interval_ms=AT_ONCE)
    (member,) = classic_group(model, 1)
    model.consumer_join("new")
    assert sum(map(len, model.group().target_of(member).values())) == 2
    model.beat("new", -1)
    newcomer = model.client("x").join()
    assert newcomer.count == 0
    (held,) = model.group().members[member].assigned.values()
    assert sorted(held) == [0, 1, 2, 3]


def test_a_member_that_never_had_an_answer_does_not_outlive_its_session() -> None:
    """GRP-9, CG-7: the five minutes for new members are over with the rebalance they were for."""
    model = ConsumerModel({"t": 4})
    (member,) = classic_group(model, 1)
    parked = model.join(instance="i", protocols=owning())
    model.consumer_join("x")
    assert parked.error is ErrorCode.REBALANCE_IN_PROGRESS
    model.beat("x", -1)
    model.advance(9_000)
    model.join(member, protocols=owning(0, 1, 2, 3))
    model.advance(3_000)
    assert model.shard.groups[GROUP].members.keys() == {member}


def test_a_refused_downgrade_leaves_the_consumer_group_alive() -> None:
    """OFS-5: with its sessions; who joined the classic group meanwhile is to try again."""
    model, member = mixed()
    epoch = model.group().group_epoch
    model.hold()
    model.beat("new", -1)
    parked = model.join(protocols=owning(0))
    model.release(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert parked.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert model.state() is None
    assert set(model.group().members) == {member, "new"}
    assert model.heartbeat(member, epoch) is ErrorCode.NONE
    model.advance(10_000)
    assert set(model.group().members) == {"new"}


def test_a_consumer_group_of_classic_members_stays_one_where_the_policy_says_so() -> None:
    """CG-7: upgrade only."""
    model, member = mixed(MigrationPolicy.UPGRADE)
    model.beat("new", -1)
    assert model.group().members.keys() == {member}


def test_a_classic_static_member_takes_the_place_of_the_last_consumer_member() -> None:
    """CG-7: the group is classic then, without a rebalance."""
    model = ConsumerModel({"t": 4}, assignment_interval_ms=AT_ONCE)
    model.consumer_join("new", instance_id="i")
    joined = model.join(instance="i", protocols=owning()).response
    assert joined.error_code == 0
    assert GROUP not in model.shard.consumer_groups
    assert model.state() == "Stable"
    assert given(model.sync(joined.member_id, joined.generation_id)) == [0, 1, 2, 3]
    assert model.beat_error("new", 1, instance_id="i") is ErrorCode.GROUP_ID_NOT_FOUND


def test_members_on_their_way_rebalance_when_the_last_consumer_member_is_replaced() -> None:
    """CG-7: who waits for partitions of others would never hear that they are free."""
    model = ConsumerModel({"t": 4, "u": 1}, assignment_interval_ms=AT_ONCE)
    (member,) = classic_group(model, 1)
    new = model.client("new", instance_id="i").join()
    held: tuple[int, ...] = (0, 1, 2, 3)
    for _ in range(3):
        joined = model.join(member, protocols=owning(*held)).response
        held = tuple(given(model.sync(member, joined.generation_id)))
        new.step()
    new.step(subscribed_topic_names=["u"])
    generation = model.join(member, protocols=owning(*held)).response.generation_id
    assert len(given(model.sync(member, generation))) == 2
    other = (("cooperative-sticky", subscription("u")),)
    joined = model.join(instance="i", protocols=other).response
    assert GROUP not in model.shard.consumer_groups
    assert model.heartbeat(member, generation) is ErrorCode.REBALANCE_IN_PROGRESS
    again = model.sync(joined.member_id, joined.generation_id)
    assert again.error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_replacement_with_other_topics_gets_them_from_a_rebalance() -> None:
    """CG-7: no target has them yet, as the last one is too new."""
    model = ConsumerModel({"t": 4, "u": 1})
    model.consumer_join("new", instance_id="i")
    other = (("cooperative-sticky", subscription("u")),)
    joined = model.join(instance="i", protocols=other).response
    assert model.state() == "PreparingRebalance"
    again = model.sync(joined.member_id, joined.generation_id)
    assert again.error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_classic_member_that_never_syncs_or_joins_is_removed() -> None:
    """CG-7: within its rebalance timeout, although it sends heartbeats."""
    model, member = mixed()
    epoch = model.group().group_epoch
    model.consumer_join("third")
    assert model.heartbeat(member, epoch) is ErrorCode.REBALANCE_IN_PROGRESS
    for _ in range(59):
        model.advance(1_000)
        model.heartbeat(member, epoch)
        model.beat("third", model.group().members["third"].member_epoch)
        model.beat("new", model.group().members["new"].member_epoch)
    assert member in model.group().members
    model.advance(1_000)
    assert member not in model.group().members


def test_members_leave_a_consumer_group_by_the_classic_request() -> None:
    """CG-7, GRP-17: classic ones by id, any static one by its instance; others not."""
    model, member = mixed()
    model.consumer_join("static", instance_id="i")
    codes = model.leave_many(("nobody", None), ("new", None), ("", "i"), ("", "x"))
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert codes == [unknown, unknown, ErrorCode.NONE, unknown]
    assert set(model.group().members) == {member, "new"}
    assert model.leave(member) is ErrorCode.NONE
    assert set(model.group().members) == {"new"}


def test_requests_of_strangers_to_a_consumer_group() -> None:
    """CG-7: 25 for who is no classic member, 22 for another generation, 23 for other protocols."""
    model, member = mixed()
    epoch = model.group().group_epoch
    assert model.heartbeat("new", epoch) is ErrorCode.UNKNOWN_MEMBER_ID
    assert model.heartbeat("x", epoch) is ErrorCode.UNKNOWN_MEMBER_ID
    assert model.heartbeat(member, epoch - 1) is ErrorCode.ILLEGAL_GENERATION
    assert model.sync(member, epoch - 1).error is ErrorCode.ILLEGAL_GENERATION
    assert model.sync(member, epoch, protocol_name="range").error is (
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    )
    assert model.join(protocols=(("range", owning()[0][1]),)).error is (
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    )
    assert model.join(protocols=owning(), protocol_type="connect").error is (
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    )
    first = model.join(protocols=owning(), version=9)
    assert first.error is ErrorCode.MEMBER_ID_REQUIRED
    again = model.join(first.response.member_id, protocols=owning(), version=9)
    assert again.error is ErrorCode.NONE


def test_a_classic_member_that_was_removed_lets_go_what_it_has_before_it_joins() -> None:
    """CG-4, CG-7: 25 for an unknown id that claims partitions, which are others' by now."""
    model, _ = mixed()
    assert model.join("gone", protocols=owning(0)).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert "gone" not in model.group().members
    assert model.join("gone", protocols=owning()).error is ErrorCode.NONE


def test_a_classic_member_that_says_too_much_changes_nothing() -> None:
    """CG-3: also where it would take the place of another one."""
    model = ConsumerModel({"t": 4}, member_metadata_bytes_max=100)
    model.consumer_join("new", instance_id="i")
    large = (("range", encode_subscription(Subscription(topics=("t",) * 50))),)
    assert model.join(instance="i", protocols=large).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert list(model.group().members) == ["new"]
    model.check()


@pytest.mark.parametrize("session_ms", [0, 1, 2**31 - 1])
def test_a_classic_member_beside_consumer_members_has_a_bounded_session(session_ms: int) -> None:
    """GRP-2: it would stay for ever, or be gone at once, with partitions that nobody reads."""
    model = ConsumerModel({"t": 4})
    model.consumer_join("new")
    refused = model.join(session_ms=session_ms, protocols=owning())
    assert refused.error is ErrorCode.INVALID_SESSION_TIMEOUT
    assert list(model.group().members) == ["new"]
    model.check()


def test_a_member_that_is_not_taken_disturbs_no_rebalance_of_a_classic_group() -> None:
    """CG-7, GRP-15: whoever is parked stays so, with its join timer."""
    model = ConsumerModel({"t": 4}, group_size_max=10)
    (first,) = classic_group(model, 1)
    parked = model.join(protocols=owning())
    fields = {"owned": {}, "rebalance_timeout_ms": 1_000}
    error = model.beat_error("x", 0, subscribed_topic_regex="(", **fields)
    assert error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert parked.is_parked
    assert model.state() == "PreparingRebalance"
    again = model.join(first, protocols=owning(0, 1, 2, 3))
    assert again.error is parked.error is ErrorCode.NONE


def test_members_keep_what_they_had_before_a_rebalance_that_an_upgrade_ends() -> None:
    """CG-4, CG-7, KIP-429: cooperative members read on while the leader has not assigned yet."""
    model = ConsumerModel({"t": 4}, assignment_interval_ms=AT_ONCE)
    ids = classic_group(model)
    for each, owned in zip(ids, ((0, 1), (2, 3)), strict=True):
        model.join(each, protocols=owning(*owned))
    assert model.state() == "CompletingRebalance"
    # The assignment that was awaited is forgotten by this.
    model.join(protocols=owning())
    assert model.state() == "PreparingRebalance"
    newcomer = model.client("x").join()
    assert newcomer.count == 0
    held = {each: dict(model.group().members[each].assigned) for each in ids}
    (topic_id,) = held[ids[0]]
    assert [sorted(held[each][topic_id]) for each in ids] == [[0, 1], [2, 3]]


def test_a_member_that_has_not_synced_keeps_what_it_had() -> None:
    """CG-4, CG-7, KIP-429: it does not know yet what it is to give away."""
    model = ConsumerModel({"t": 4}, assignment_interval_ms=AT_ONCE)
    first, second = classic_group(model)
    tickets = [
        model.join(each, protocols=owning(*owned))
        for each, owned in ((first, (0, 1)), (second, (2, 3)))
    ]
    leader = first if _leads(tickets[0]) else second
    other, kept = (second, (2, 3)) if leader == first else (first, (0, 1))
    model.sync(leader, model.generation(), {leader: blob(*({0, 1, 2, 3} - {*kept}))})
    assert model.state() == "Stable"
    newcomer = model.client("x").join()
    (held,) = model.group().members[other].assigned.values()
    assert tuple(sorted(held)) == kept
    assert newcomer.count == 0


def test_what_a_leader_assigned_wrongly_is_not_taken_over() -> None:
    """CG-4, CG-7: a partition twice, or one that there is not; no heartbeat fails for it."""
    model = ConsumerModel({"t": 2, "u": 1}, assignment_interval_ms=AT_ONCE)
    tickets = [model.join(protocols=owning()) for _ in range(2)]
    first = tickets[0].response.member_id
    tickets[0] = model.join(first, protocols=owning())
    ids = [ticket.response.member_id for ticket in tickets]
    leader, other = sorted(ids, key=lambda each: each != tickets[0].response.leader)
    given = {leader: blob(0, 1, -1), other: blob(1, 7, 2**31 - 1)}
    model.sync(leader, model.generation(), given)
    newcomer = model.client("x", subscribed_topic_names=["t", "u"]).join()
    assert newcomer.count == 1
    assert [
        sorted(*each.assigned.values()) for each in model.group().members.values() if each.assigned
    ]


@pytest.mark.parametrize("code", [None, ErrorCode.NOT_ENOUGH_REPLICAS])
def test_a_classic_member_hears_nothing_that_is_not_committed(code: ErrorCode | None) -> None:
    """OFS-5, CG-4: a repeated join and its sync wait for the first, which may be refused."""
    model, member = mixed()
    model.named.put("u", 1)
    held = [0, 1, 2, 3]
    generation = model.join(member, protocols=owning(*held)).response.generation_id
    held = given(model.sync(member, generation))
    new = model.group().members["new"]
    model.beat("new", new.member_epoch, subscribed_topic_names=["u"])
    generation = model.join(member, protocols=owning(*held)).response.generation_id
    assert given(model.sync(member, generation)) == held
    model.hold()
    model.beat("new", model.group().members["new"].member_epoch, owned={})
    tickets = [model.join(member, protocols=owning(*held)) for _ in range(2)]
    tickets.append(model.sync(member, generation))
    assert len(model.group().members[member].assigned) == 1
    assert [ticket.is_parked for ticket in tickets] == [True, True, True]
    model.release(code)
    if code is None:
        assert given(tickets[2]) == [0, 1, 2, 3]
    else:
        assert {ticket.error for ticket in tickets} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}

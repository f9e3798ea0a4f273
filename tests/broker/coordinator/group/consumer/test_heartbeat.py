"""Heartbeats of the consumer protocol: joining, reconciling, fencing, leaving."""

from typing import Any

import pytest

from barnabas_broker.config.bounded_settings import Bounded
from barnabas_broker.coordinator.group.consumer.consumer_group import ConsumerGroupState
from barnabas_broker.coordinator.group.consumer.member import MemberState
from barnabas_protocol.errors import ErrorCode, KafkaError
from tests.broker.coordinator.group.consumer.consumer_model import ConsumerModel
from tests.support.group_model import GROUP, subscription

AT_ONCE = Bounded(0, 0, 0)
SESSION_MS = 45_000


def test_the_first_member_gets_everything_at_once() -> None:
    """CG-1, CG-2: target and assignment come with the first response."""
    model = ConsumerModel({"t": 3})
    response = model.consumer_join("a")
    assert (response.member_id, response.member_epoch) == ("a", 1)
    assert response.heartbeat_interval_ms == 5_000
    assert response.assignment is not None
    assert response.assignment.topic_partitions[0].partitions == [0, 1, 2]
    assert model.group().state is ConsumerGroupState.STABLE
    assert model.beat("a", 1).assignment is None


def test_members_share_and_a_leaver_gives_back() -> None:
    """CG-4: partitions move one by one; nobody waits for the whole group."""
    model = ConsumerModel({"t": 6})
    a, b, c = (model.client(each) for each in "abc")
    a.join()
    b.join()
    assert b.count == 0
    c.join()
    model.settle(a, b, c)
    assert [a.count, b.count, c.count] == [2, 2, 2]
    assert model.group().state is ConsumerGroupState.STABLE
    b.leave()
    assert "b" not in model.group().members
    model.settle(a, c)
    assert sorted([a.count, c.count]) == [3, 3]


def test_a_partition_is_given_only_when_its_owner_has_let_it_go() -> None:
    """CG-4: revoke before assign, confirmed by an owned list without it; null confirms nothing."""
    model = ConsumerModel({"t": 2}, assignment_interval_ms=AT_ONCE)
    model.consumer_join("a")
    joined = model.consumer_join("b")
    assert joined.member_epoch == 2
    assert model.group().members["b"].state is MemberState.UNRELEASED_PARTITIONS
    told = model.beat("a", 1)
    assert told.member_epoch == 1, "the epoch stays while partitions are being revoked"
    assert told.assignment is not None
    (kept,) = told.assignment.topic_partitions[0].partitions
    assert model.group().members["a"].state is MemberState.UNREVOKED_PARTITIONS
    assert model.beat("a", 1).member_epoch == 1
    assert model.beat("b", 2).assignment is None
    assert model.beat("a", 1, owned={"t": [kept]}).member_epoch == 2
    given = model.beat("b", 2)
    assert given.assignment is not None
    assert given.assignment.topic_partitions[0].partitions == [1 - kept]
    assert model.group().state is ConsumerGroupState.STABLE


def test_a_member_that_does_not_revoke_is_removed() -> None:
    """CG-4: within its rebalance timeout, heartbeats or not."""
    model = ConsumerModel({"t": 2}, assignment_interval_ms=AT_ONCE)
    model.consumer_join("a", rebalance_timeout_ms=10_000)
    model.consumer_join("b")
    model.beat("a", 1)
    for _ in range(9):
        model.advance(1_000)
        model.beat("a", 1)
    model.advance(1_001)
    assert list(model.group().members) == ["b"]
    given = model.beat("b", 2)
    assert given.assignment is not None
    assert given.assignment.topic_partitions[0].partitions == [0, 1]
    assert model.beat_error("a", 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_silent_member_is_removed_after_its_session() -> None:
    """CG-5: counted from its last heartbeat."""
    model = ConsumerModel()
    model.consumer_join("a")
    model.consumer_join("b")
    model.advance(SESSION_MS - 1)
    model.beat("a", 1)
    assert set(model.group().members) == {"a", "b"}
    model.advance(1)
    assert set(model.group().members) == {"a"}
    model.advance(SESSION_MS)
    assert model.group().state is ConsumerGroupState.EMPTY


def test_a_refused_removal_is_tried_again() -> None:
    """OFS-5: the member is back until the log takes its removal."""
    model = ConsumerModel()
    model.consumer_join("a")
    model.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
    model.advance(SESSION_MS)
    assert set(model.group().members) == {"a"}
    model.fail_with = None
    model.advance(5_000)
    assert not model.group().members


def test_a_member_whose_leave_is_refused_has_a_session_again() -> None:
    """OFS-5, CG-5: its timer had fired while it seemed to be gone, and nobody speaks for it."""
    model = ConsumerModel()
    model.consumer_join("a")
    model.hold()
    model.beat("a", -1)
    model.advance(50_000)
    model.release(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert "a" in model.group().members
    model.advance(50_000)
    assert not model.group().members


def test_a_refused_join_leaves_nothing_behind() -> None:
    """OFS-5: no group, no member."""
    model = ConsumerModel()
    model.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
    with pytest.raises(KafkaError):
        model.consumer_join("a")
    assert not model.shard.consumer_groups
    model.fail_with = None
    assert model.consumer_join("a").member_epoch == 1


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided"),
    ({"owned": None}, "TopicPartitions must be empty"),
    ({"owned": {"t": [0]}}, "TopicPartitions must be empty"),
    ({"subscribed_topic_names": None}, "Either SubscribedTopicNames"),
    ({"member_id": ""}, "MemberId can't be empty"),
    ({"group": ""}, "GroupId can't be empty"),
    ({"instance_id": ""}, "InstanceId can't be empty"),
    ({"rack_id": ""}, "RackId can't be empty"),
]


@pytest.mark.parametrize(("fields", "text"), REFUSED)
def test_a_join_must_be_complete(fields: dict[str, Any], text: str) -> None:
    """CG-3: else INVALID_REQUEST (42), and no group is made."""
    model = ConsumerModel()
    member_id = fields.pop("member_id", "a")
    with pytest.raises(KafkaError, match=text) as caught:
        model.consumer_join(member_id, **fields)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    assert not model.shard.consumer_groups


def test_other_requests_that_no_group_takes() -> None:
    """CG-1, CG-3: 42 for an epoch that there is not, 112 for an assignor, 69 for no group."""
    model = ConsumerModel()
    assert model.beat_error("a", -3) is ErrorCode.INVALID_REQUEST
    assert model.beat_error("a", -2) is ErrorCode.INVALID_REQUEST
    assert model.beat_error("a", 1) is ErrorCode.GROUP_ID_NOT_FOUND
    assert model.beat_error("a", -1) is ErrorCode.GROUP_ID_NOT_FOUND
    with pytest.raises(KafkaError, match="Supported assignors: uniform, range") as caught:
        model.consumer_join("a", server_assignor="best")
    assert caught.value.code is ErrorCode.UNSUPPORTED_ASSIGNOR
    model.consumer_join("a")
    assert model.beat_error("b", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert model.beat_error("b", -1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_version_0_gets_a_member_id() -> None:
    """KIP-848: clients make their ids since version 1."""
    model = ConsumerModel()
    response = model.consumer_join("", version=0)
    assert response.member_id is not None
    assert len(response.member_id) == 36
    assert list(model.group().members) == [response.member_id]


def test_another_epoch_fences_unless_the_last_response_was_lost() -> None:
    """CG-3: ahead and behind are 110; the previous epoch with a subset of what it has is taken."""
    model = ConsumerModel({"t": 4}, assignment_interval_ms=AT_ONCE)
    model.consumer_join("a")
    model.consumer_join("b")
    model.beat("a", 1)
    moved = model.beat("a", 1, owned={"t": [0, 1]})
    assert moved.member_epoch == 2
    assert model.beat_error("a", 3) is ErrorCode.FENCED_MEMBER_EPOCH
    assert model.beat_error("a", 1) is ErrorCode.FENCED_MEMBER_EPOCH
    assert model.beat_error("a", 1, owned={"t": [3]}) is ErrorCode.FENCED_MEMBER_EPOCH
    assert model.beat("a", 1, owned={"t": [0]}).member_epoch == 2


def test_a_member_that_begins_anew_keeps_its_id_and_its_partitions() -> None:
    """CG-3: epoch 0 is no reason to fence, and is answered in full."""
    model = ConsumerModel({"t": 2})
    model.consumer_join("a")
    again = model.consumer_join("a")
    assert again.member_epoch == 1
    assert again.assignment is not None
    assert again.assignment.topic_partitions[0].partitions == [0, 1]
    assert model.group().group_epoch == 1


def test_full_groups_take_only_those_who_are_known() -> None:
    """CG-3: 81 for one member more, not for one that comes back."""
    model = ConsumerModel(group_size_max=2)
    model.consumer_join("a", instance_id="i")
    model.consumer_join("b")
    assert model.beat_error(
        "c", 0, owned={}, rebalance_timeout_ms=1, subscribed_topic_names=["t"]
    ) is (ErrorCode.GROUP_MAX_SIZE_REACHED)
    model.consumer_join("b")
    model.beat("a", -2, instance_id="i")
    assert model.consumer_join("c", instance_id="i").member_id == "c"


def test_null_fields_are_unchanged_and_new_subscriptions_count() -> None:
    """CG-2, CG-5: only a subscription that differs raises the group epoch."""
    model = ConsumerModel({"t": 2, "u": 2}, assignment_interval_ms=AT_ONCE)
    model.consumer_join("a")
    model.beat("a", 1, rebalance_timeout_ms=7_000)
    member = model.group().members["a"]
    assert (member.rebalance_timeout_ms, member.topics) == (7_000, {"t"})
    assert model.group().group_epoch == 1
    model.beat("a", 1, subscribed_topic_names=["t"])
    assert model.group().group_epoch == 1
    changed = model.beat("a", 1, subscribed_topic_names=["t", "u"])
    assert changed.member_epoch == 2
    assert changed.assignment is not None
    assert len(changed.assignment.topic_partitions) == 2


def test_a_topic_that_is_no_longer_wanted_is_revoked_before_the_next_target() -> None:
    """CG-4: the last target is too new, but the member does not keep what it has left."""
    model = ConsumerModel({"t": 2, "u": 2})
    model.consumer_join("a", subscribed_topic_names=["t", "u"])
    told = model.beat("a", 1, subscribed_topic_names=["u"])
    group = model.group()
    assert (group.group_epoch, group.assignment_epoch) == (2, 1)
    assert told.assignment is not None
    assert [each.topic_id for each in told.assignment.topic_partitions] == [model.named.ids["u"]]
    assert group.members["a"].state is MemberState.UNREVOKED_PARTITIONS
    model.advance(1_000)
    assert model.beat("a", 1, owned={"u": [0, 1]}).member_epoch == 2
    assert group.state is ConsumerGroupState.STABLE


def test_targets_last_for_the_assignment_interval() -> None:
    """CG-2, KIP-1263: later members wait for the next target, the first one does not."""
    model = ConsumerModel({"t": 4})
    model.consumer_join("a")
    model.consumer_join("b")
    group = model.group()
    assert (group.group_epoch, group.assignment_epoch) == (2, 1)
    assert group.state is ConsumerGroupState.ASSIGNING
    model.advance(999)
    model.beat("b", 1)
    assert group.assignment_epoch == 1
    model.advance(1)
    model.beat("b", 1)
    assert group.assignment_epoch == 2


def test_settings_of_a_group_hold_within_the_bounds_of_the_broker() -> None:
    """CG-5: what lies outside by now is brought in."""
    model = ConsumerModel()
    model.overrides[GROUP] = {
        "consumer.heartbeat.interval.ms": "7000",
        "consumer.session.timeout.ms": "70000",
    }
    assert model.consumer_join("a").heartbeat_interval_ms == 7_000
    model.advance(59_999)
    assert model.group().members
    model.advance(1)
    assert not model.group().members


def test_new_partitions_and_deleted_topics_raise_the_group_epoch() -> None:
    """CG-2: noticed at the next heartbeat of any member."""
    model = ConsumerModel({"t": 2, "other": 1}, assignment_interval_ms=AT_ONCE)
    model.consumer_join("a", subscribed_topic_names=["t", "later"])
    model.named.put("other", 5)
    assert model.beat("a", 1).member_epoch == 1
    model.named.put("t", 3)
    more = model.beat("a", 1)
    assert more.member_epoch == 2
    assert more.assignment is not None
    assert more.assignment.topic_partitions[0].partitions == [0, 1, 2]
    model.named.put("later", 1)
    assert model.beat("a", 2).member_epoch == 3
    model.named.remove("t")
    gone = model.beat("a", 3)
    assert gone.assignment is not None
    assert len(gone.assignment.topic_partitions) == 1


def test_the_assignor_that_most_members_name_is_taken() -> None:
    """CG-1, CG-2: and a change of it raises the group epoch."""
    model = ConsumerModel({"t": 3, "u": 3}, assignment_interval_ms=AT_ONCE)
    subscribed = {"subscribed_topic_names": ["t", "u"]}
    a = model.client("a", server_assignor="range", **subscribed).join()
    b = model.client("b", server_assignor="range", **subscribed).join()
    model.settle(a, b)
    assert model.shard.describe_consumer_group(GROUP).assignor_name == "range"
    assert a.owned == {"t": [0, 1], "u": [0, 1]}
    epoch = model.group().group_epoch
    a.step(server_assignor="uniform")
    b.step(server_assignor="uniform")
    assert model.group().group_epoch > epoch
    model.settle(a, b)
    assert [a.count, b.count] == [3, 3]


def test_groups_survive_a_restart() -> None:
    """GRP-20: members go on with their epochs, and have fresh sessions."""
    model = ConsumerModel({"t": 4})
    a, b = model.client("a").join(), model.client("b").join()
    model.settle(a, b)
    model.advance(SESSION_MS - 1)
    model.restart()
    model.advance(SESSION_MS - 1)
    a.step()
    assert model.group().state is ConsumerGroupState.STABLE
    model.advance(1)
    assert list(model.group().members) == ["a"]


def test_a_member_that_was_revoking_is_removed_after_a_restart_too() -> None:
    """CG-4: its rebalance timeout begins anew with the new coordinator."""
    model = ConsumerModel({"t": 2}, assignment_interval_ms=AT_ONCE)
    model.consumer_join("a", rebalance_timeout_ms=10_000)
    model.consumer_join("b")
    model.beat("a", 1)
    model.restart()
    model.advance(9_999)
    assert "a" in model.group().members
    model.advance(1)
    assert "a" not in model.group().members


def test_what_members_say_about_themselves_is_bounded() -> None:
    """CG-3: of one member, and of all together; who is in the group stays as it is."""
    model = ConsumerModel(member_metadata_bytes_max=20, group_metadata_bytes_max=30)
    model.consumer_join("a", subscribed_topic_names=["t", "x" * 10])
    with pytest.raises(KafkaError) as caught:
        model.beat("a", 1, subscribed_topic_names=["x" * 21])
    assert caught.value.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    with pytest.raises(KafkaError):
        model.consumer_join("b", subscribed_topic_names=["x" * 20])
    assert set(model.group().members) == {"a"}
    model.consumer_join("b", subscribed_topic_names=["x" * 15])
    model.beat("a", 1, subscribed_topic_names=["t"])
    assert model.group().metadata_bytes == 16


def test_topics_of_a_refused_heartbeat_are_looked_at_again() -> None:
    """CG-2, OFS-5: the epoch is undone, so the next heartbeat must notice the new partitions."""
    model = ConsumerModel({"t": 2}, assignment_interval_ms=AT_ONCE)
    member = model.client("a").join()
    model.named.put("t", 4)
    model.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
    assert model.beat_error("a", member.epoch) is ErrorCode.NOT_ENOUGH_REPLICAS
    model.fail_with = None
    model.settle(member)
    assert member.count == 4


def test_how_many_topics_members_name_is_bounded() -> None:
    """CG-3: of one member, and different ones of all; who names no more than before stays."""
    model = ConsumerModel(member_topics_max=3, group_topics_max=4)
    names = ["a", "b", "c", "d", "e"]
    model.consumer_join("a", subscribed_topic_names=names[:3])
    full = {"owned": {}, "rebalance_timeout_ms": 1_000}
    for wanted in (names[:4], names[2:]):
        error = model.beat_error("b", 0, subscribed_topic_names=wanted, **full)
        assert error is ErrorCode.GROUP_MAX_SIZE_REACHED
    model.consumer_join("b", subscribed_topic_names=names[1:4])
    model.beat("a", 1, subscribed_topic_names=["a", "b", "e"])
    assert len(model.group().name_counts) == 5
    protocols = (("range", subscription(*names[:4])),)
    joined = model.join(protocols=protocols)
    assert joined.error is ErrorCode.GROUP_MAX_SIZE_REACHED


@pytest.mark.parametrize("field", ["rack_id", "instance_id", "subscribed_topic_regex"])
def test_all_that_a_member_says_about_itself_counts(field: str) -> None:
    """CG-3: in bytes, as it is in a record."""
    model = ConsumerModel(member_metadata_bytes_max=100, pattern_chars_max=1_000)
    fields = {"owned": {}, "rebalance_timeout_ms": 1_000, "subscribed_topic_names": ["t"]}
    error = model.beat_error("a", 0, **{**fields, field: "é" * 60})
    assert error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert model.beat_error("m" * 1_025, 0, **fields) is ErrorCode.INVALID_REQUEST
    assert not model.shard.consumer_groups

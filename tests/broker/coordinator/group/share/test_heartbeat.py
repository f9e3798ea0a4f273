"""Heartbeats of share groups: joining, epochs, fencing, leaving."""

from typing import Any

import pytest

from barnabas_broker.config.bounded_settings import Bounded
from barnabas_broker.coordinator.group.share.share_group import ShareGroupState
from barnabas_protocol.errors import ErrorCode, KafkaError
from tests.broker.coordinator.group.consumer.consumer_model import ConsumerModel
from tests.broker.coordinator.group.share.share_model import ShareModel
from tests.support.group_model import GROUP

AT_ONCE = Bounded(0, 0, 0)
SESSION_MS = 45_000


def test_the_first_member_has_nothing_until_the_state_is_made() -> None:
    """SHR-28, SHR-29: then its next heartbeat brings all partitions, at the next epoch."""
    model = ShareModel({"t": 3}, assignment_interval_ms=AT_ONCE)
    beat = model.beat_with_work("a", 0, subscribed_topic_names=["t"])
    assert (beat.response.member_id, beat.response.member_epoch) == ("a", 1)
    assert model.owned(beat.response) == {}
    assert beat.has_work
    model.make_all()
    beat = model.beat_with_work("a", 1)
    assert beat.response.member_epoch == 2
    assert model.owned(beat.response) == {"t": [0, 1, 2]}
    assert not beat.has_work
    assert model.beat("a", 2).assignment is None
    assert model.group().state is ShareGroupState.STABLE


def test_a_member_comes_again_soon_while_its_partitions_are_initialized() -> None:
    """SHR-28, SHR-29: two intervals of 5 s would else pass before a new group has a record."""
    model = ShareModel({"t": 3})
    assert model.beat("a", 0, subscribed_topic_names=["t"]).heartbeat_interval_ms == 500
    model.make_all()
    model.advance(400)
    beat = model.beat("a", 1)
    assert (beat.heartbeat_interval_ms, beat.assignment) == (600, None), "the target is new"
    model.advance(600)
    beat = model.beat("a", 1)
    assert model.owned(beat) == {"t": [0, 1, 2]}
    assert beat.heartbeat_interval_ms == 5_000
    # A topic that is not there is waited for as ever; so is one that is added to others.
    assert model.beat("b", 0, subscribed_topic_names=["u"]).heartbeat_interval_ms == 1_000
    model.advance(1_000)
    assert model.beat("b", 2).heartbeat_interval_ms == 5_000
    model.named.put("u", 1)
    assert model.beat("a", 2, subscribed_topic_names=["t", "u"]).heartbeat_interval_ms == 5_000


def test_a_member_comes_as_usual_where_initializing_does_not_go_on() -> None:
    """SHR-29: it has failed, and is tried again later; or the group is full of partitions."""
    model = ShareModel({"t": 3}, assignment_interval_ms=AT_ONCE)
    model.share_join("a")
    work = model.plan()
    assert work is not None
    model.finish(work, failed=list(work.initialize))
    assert model.beat("a", 1).heartbeat_interval_ms == 5_000
    model.advance(30_000)
    assert model.beat("a", 1).heartbeat_interval_ms == 500
    full = ShareModel({"t": 3, "u": 3}, assignment_interval_ms=AT_ONCE, group_partitions_max=3)
    full.share_join("a")
    full.make_all()
    assert full.group().partitions.count == 3
    full.beat("a", 1)
    assert full.beat("b", 0, subscribed_topic_names=["u"]).heartbeat_interval_ms == 5_000


def test_members_share_partitions_at_once() -> None:
    """SHR-28: nobody lets go anything before another one gets it, and all epochs are alike."""
    model = ShareModel({"t": 1}, assignment_interval_ms=AT_ONCE)
    model.share_join("a")
    model.make_all()
    model.beat("a", 1)
    assert model.share_join("b") == {"t": [0]}
    assert model.group().members["a"].assigned == model.group().members["b"].assigned
    assert model.beat("a", 2).member_epoch == 3


def test_a_target_lasts_for_the_assignment_interval() -> None:
    """SHR-28 as CG-2: who joins meanwhile is at the former epoch, with nothing."""
    model = ShareModel({"t": 2})
    model.share_join("a")
    model.make_all()
    assert model.beat("a", 1).member_epoch == 1, "the first target is not a second old"
    model.advance(1_000)
    assert model.owned(model.beat("a", 1)) == {"t": [0, 1]}
    model.overrides[GROUP] = {"share.assignment.interval.ms": "3000"}
    assert model.share_join("b") == {}
    model.advance(2_999)
    assert model.beat("b", 2).assignment is None
    model.advance(1)
    assert model.owned(model.beat("b", 2)) == {"t": [1]}


def test_an_assignment_comes_with_topics_or_a_lost_response_only() -> None:
    """SHR-28: a member that comes with its former epoch has not heard of the new one."""
    model = ShareModel({"t": 2}, assignment_interval_ms=AT_ONCE)
    model.share_join("a")
    model.make_all()
    model.beat("a", 1)
    assert model.beat("a", 2).assignment is None
    assert model.owned(model.beat("a", 1)) == {"t": [0, 1]}
    assert model.owned(model.beat("a", 2, subscribed_topic_names=["t"])) == {"t": [0, 1]}
    assert model.group().group_epoch == 2


def test_another_epoch_is_fenced() -> None:
    """SHR-28: ahead, or behind other than the previous one, is 110; 0 begins anew."""
    model = ShareModel({"t": 2}, assignment_interval_ms=AT_ONCE)
    model.share_join("a")
    model.make_all()
    model.beat("a", 1)
    model.share_join("b")
    model.beat("a", 2)
    assert model.beat_error("a", 4) is ErrorCode.FENCED_MEMBER_EPOCH
    assert model.beat_error("a", 1) is ErrorCode.FENCED_MEMBER_EPOCH
    assert model.beat_error("a", 2) is ErrorCode.NONE
    assert model.share_join("a") != {}
    assert model.beat_error("c", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert model.beat_error("c", -1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert model.beat_error("a", 1, group="other") is ErrorCode.GROUP_ID_NOT_FOUND
    assert model.beat_error("a", -1, group="other") is ErrorCode.GROUP_ID_NOT_FOUND


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"member_id": ""}, "MemberId can't be empty"),
    ({"member_id": "m" * 37}, "MemberId can't have more"),
    ({"group": ""}, "GroupId can't be empty"),
    ({"rack_id": ""}, "RackId can't be empty"),
    ({"epoch": -2}, "MemberEpoch is invalid"),
    ({"subscribed_topic_names": None}, "SubscribedTopicNames must be set"),
    ({"subscribed_topic_names": []}, "SubscribedTopicNames must be set"),
]


@pytest.mark.parametrize(("fields", "text"), REFUSED)
def test_a_request_that_no_group_could_take_is_refused(fields: dict[str, Any], text: str) -> None:
    """SHR-28: 42, and no group is made."""
    model = ShareModel()
    given = {"member_id": "a", "epoch": 0, "subscribed_topic_names": ["t"], **fields}
    with pytest.raises(KafkaError, match=text) as raised:
        model.beat(given.pop("member_id"), given.pop("epoch"), **given)
    assert raised.value.code is ErrorCode.INVALID_REQUEST
    assert not model.shard.share_groups


def test_a_full_group_takes_no_other_member() -> None:
    """SHR-28: 81 beyond `group.share.max.size`; who is in it may begin anew."""
    model = ShareModel(group_size_max=2)
    model.share_join("a")
    model.share_join("b")
    assert model.beat_error("c", 0, subscribed_topic_names=["t"]) is (
        ErrorCode.GROUP_MAX_SIZE_REACHED
    )
    model.share_join("a")
    model.beat("b", -1)
    model.share_join("c")


def test_what_members_say_about_themselves_is_bounded() -> None:
    """SHR-28: Kafka does not bound it; a member may say less than it did all the same."""
    model = ShareModel(member_metadata_bytes_max=100, group_metadata_bytes_max=150)
    model.share_join("a", "x" * 100)
    too_much = [["x" * 101], ["x" * 60]]
    for names in too_much:
        assert model.beat_error("b", 0, subscribed_topic_names=names) is (
            ErrorCode.GROUP_MAX_SIZE_REACHED
        )
    model.beat("a", 1, subscribed_topic_names=["x" * 20])
    model.share_join("b", "x" * 60)
    assert model.group().metadata_bytes == 80


def test_the_subscriptions_of_a_group_are_bounded() -> None:
    """SHR-28: targets are computed at a time; all names of all members count."""
    model = ShareModel(group_subscriptions_max=4)
    model.share_join("a", "t", "u")
    model.share_join("b", "t", "u")
    assert model.beat_error("c", 0, subscribed_topic_names=["t"]) is (
        ErrorCode.GROUP_MAX_SIZE_REACHED
    )
    assert model.beat_error("b", 1, subscribed_topic_names=["v", "w"]) is ErrorCode.NONE
    model.beat("a", -1)
    model.share_join("c", "t")


def test_a_member_that_leaves_or_is_silent_is_out() -> None:
    """SHR-28: epoch -1, or `group.share.session.timeout.ms` without a heartbeat."""
    model = ShareModel({"t": 2}, assignment_interval_ms=AT_ONCE)
    model.share_join("a")
    model.share_join("b")
    model.make_all()
    assert model.beat("b", -1).member_epoch == -1
    assert list(model.group().members) == ["a"]
    assert model.owned(model.beat("a", 1)) == {"t": [0, 1]}
    model.advance(SESSION_MS - 1)
    assert list(model.group().members) == ["a"]
    model.advance(1)
    assert model.group().state is ShareGroupState.EMPTY


def test_the_session_of_a_group_is_its_own_within_the_bounds() -> None:
    """SHR-38: effective at once; a stored value beyond the bounds is clamped."""
    model = ShareModel()
    model.overrides[GROUP] = {"share.session.timeout.ms": "50000"}
    model.share_join("a")
    model.advance(49_999)
    model.overrides[GROUP] = {"share.session.timeout.ms": "1"}
    model.beat("a", 1)
    model.advance(44_999)
    assert model.group().members
    model.overrides[GROUP] = {"share.heartbeat.interval.ms": "99000"}
    model.make_all()
    assert model.owned(model.beat("a", 1)) == {"t": [*range(6)]}
    assert model.beat("a", 2).heartbeat_interval_ms == 15_000


def test_a_refused_removal_is_tried_again() -> None:
    """OFS-5: the member is back until the log takes its removal."""
    model = ShareModel()
    model.share_join("a")
    model.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
    model.advance(SESSION_MS)
    assert set(model.group().members) == {"a"}
    model.fail_with = None
    model.advance(5_000)
    assert not model.group().members


def test_a_refused_heartbeat_leaves_nothing_behind() -> None:
    """OFS-5: no group; and a change that was seen in it is seen again."""
    model = ShareModel({"t": 1}, assignment_interval_ms=AT_ONCE)
    model.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
    with pytest.raises(KafkaError):
        model.share_join("a")
    assert not model.shard.share_groups
    model.fail_with = None
    model.share_join("a")
    model.make_all()
    model.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
    with pytest.raises(KafkaError):
        model.beat("a", 1)
    assert model.group().group_epoch == 1
    model.fail_with = None
    assert model.owned(model.beat("a", 1)) == {"t": [0]}


def test_a_topic_change_that_the_log_refused_is_seen_again_by_consumer_groups() -> None:
    """CG-2: the heartbeat after the refused one looks at the topics anew."""
    model = ConsumerModel({"t": 1}, assignment_interval_ms=AT_ONCE)
    model.consumer_join("a")
    model.named.put("t", 2)
    model.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
    with pytest.raises(KafkaError):
        model.beat("a", 1)
    model.fail_with = None
    assert model.beat("a", 1).member_epoch == 2


def test_a_new_coordinator_goes_on_with_the_group() -> None:
    """SHR-28, SHR-30: members, epochs, targets and states are what they were; sessions begin."""
    model = ShareModel({"t": 2}, assignment_interval_ms=AT_ONCE)
    model.share_join("a")
    model.make_all()
    model.beat("a", 1)
    model.advance(SESSION_MS - 1)
    model.restart()
    assert model.beat_with_work("a", 2).response.member_epoch == 2
    assert not model.beat_with_work("a", 2).has_work
    model.advance(SESSION_MS)
    assert model.group().state is ShareGroupState.EMPTY


def test_topics_that_change_move_the_group_on() -> None:
    """SHR-28, SHR-29: more partitions are made first; a deleted topic is nobody's."""
    model = ShareModel({"t": 2, "u": 1}, assignment_interval_ms=AT_ONCE)
    model.share_join("a", "t", "u")
    model.make_all()
    model.beat("a", 1)
    model.named.put("t", 3)
    beat = model.beat_with_work("a", 2)
    assert beat.has_work
    assert beat.response.member_epoch == 3
    assert beat.response.assignment is None
    model.make_all()
    assert model.owned(model.beat("a", 3)) == {"t": [0, 1, 2], "u": [0]}
    model.named.remove("u")
    assert model.owned(model.beat("a", 4)) == {"t": [0, 1, 2]}

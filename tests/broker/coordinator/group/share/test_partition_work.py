"""Which state a share group has made and deleted, and what comes of it."""

import pytest

from barnabas_broker.config.bounded_settings import Bounded
from barnabas_broker.coordinator.group.share import partition_work
from barnabas_broker.coordinator.group.share.partition_states import PartitionStates, TopicState
from barnabas_protocol.errors import ErrorCode, KafkaError
from tests.broker.coordinator.group.share.share_model import ShareModel
from tests.support.group_model import GROUP

AT_ONCE = Bounded(0, 0, 0)


def test_new_partitions_begin_unread_and_added_ones_at_zero() -> None:
    """SHR-29: nothing that was written to a partition added later may be missed."""
    model = ShareModel({"t": 2}, assignment_interval_ms=AT_ONCE)
    model.share_join("a")
    work = model.plan()
    assert work is not None
    assert (work.state_epoch, model.starts(work)) == (1, {"t": {0: -1, 1: -1}})
    assert model.plan() is not None, "what is not finished is planned again"
    model.finish(work)
    assert model.plan() is None
    model.named.put("t", 4)
    work = model.plan()
    assert work is not None
    assert model.starts(work) == {"t": {2: 0, 3: 0}}


def test_a_repeated_attempt_has_a_higher_state_epoch() -> None:
    """SHR-29: so that the share coordinator refuses an attempt of before that arrives late."""
    model = ShareModel({"t": 1})
    model.share_join("a")
    first = model.plan()
    model.restart()
    second = model.plan()
    assert first is not None
    assert second is not None
    assert second.state_epoch == first.state_epoch + 1 == model.group().group_epoch
    assert model.starts(second) == {"t": {0: -1}}


def test_what_failed_is_tried_again_after_the_interval() -> None:
    """SHR-29: `group.share.initialize.retry.interval.ms`; heartbeats do not ask before."""
    model = ShareModel({"t": 1, "u": 1}, assignment_interval_ms=AT_ONCE)
    model.share_join("a", "t", "u")
    work = model.plan()
    assert work is not None
    model.finish(work, failed=[model.named.ids["u"]])
    beat = model.beat_with_work("a", 1)
    assert model.owned(beat.response) == {"t": [0]}
    assert not beat.has_work
    model.advance(29_999)
    assert not model.beat_with_work("a", 2).has_work
    model.advance(1)
    assert model.beat_with_work("a", 2).has_work
    again = model.plan()
    assert again is not None
    assert model.starts(again) == {"u": {0: -1}}
    model.finish(again)
    assert not model.beat_with_work("a", 2).has_work


def test_work_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """SHR-29: topics are taken one after the other, and a group has so many partitions at most."""
    monkeypatch.setattr(partition_work, "PARTITIONS_AT_ONCE", 3)
    model = ShareModel({"t": 2, "u": 2, "v": 2}, group_partitions_max=3)
    model.share_join("a", "t", "u", "v")
    work = model.plan()
    assert work is not None
    assert set(model.starts(work)) == {"t", "u"}
    model.finish(work)
    assert model.plan() is None


def test_topics_that_are_gone_are_forgotten() -> None:
    """SHR-25: the share coordinator deletes their state by itself."""
    model = ShareModel({"t": 1, "u": 1})
    model.share_join("a", "t", "u")
    gone = model.named.ids["u"]
    model.make_all()
    model.named.remove("u")
    model.run(lambda shard, _: shard.share_partitions.topics_deleted({"u": gone}))
    assert set(model.group().partitions.initialized) == {model.named.ids["t"]}
    model.named.put("w", 1)
    model.named.remove("t")
    model.share_join("a", "w")
    model.make_all()
    assert set(model.group().partitions.initialized) == {model.named.ids["w"]}


def test_what_is_finished_for_a_topic_that_is_gone_counts_for_nothing() -> None:
    """SHR-29: it was deleted while its state was made."""
    model = ShareModel({"t": 1})
    model.share_join("a")
    work = model.plan()
    assert work is not None
    model.named.remove("t")
    model.finish(work)
    assert not model.group().partitions.initialized


def test_offsets_are_altered_under_a_new_epoch() -> None:
    """SHR-32: of an Empty group, which is made if there is none; 68 with members."""
    model = ShareModel({"t": 3})
    topic_id = model.named.ids["t"]

    def alter(starts: dict[int, int]) -> partition_work.PartitionWork:
        work: partition_work.PartitionWork = model.run(
            lambda shard, now: shard.share_partitions.alter(GROUP, {topic_id: starts}, "h", now)
        )
        return work

    work = alter({1: 70})
    assert (work.state_epoch, model.starts(work)) == (1, {"t": {1: 70}})
    assert model.group().partitions.initializing == {topic_id: TopicState("t", frozenset((1,)))}
    model.finish(work)
    assert model.group().partitions.initialized == {topic_id: TopicState("t", frozenset((1,)))}
    assert alter({1: 80}).state_epoch == 2
    assert model.group().partitions.initializing == {}
    model.share_join("a")
    with pytest.raises(KafkaError) as raised:
        alter({1: 90})
    assert raised.value.code is ErrorCode.NON_EMPTY_GROUP
    rest = model.plan()
    assert rest is not None
    assert model.starts(rest) == {"t": {0: -1, 2: 0}}


def test_deleted_offsets_are_gone_when_the_state_is() -> None:
    """SHR-32: until then the topic is being deleted, and nobody makes its state anew."""
    model = ShareModel({"t": 2, "u": 1})
    model.share_join("a", "t", "u")
    model.make_all()
    ids = model.named.ids

    def delete(*names: str) -> partition_work.PartitionWork:
        work: partition_work.PartitionWork = model.run(
            lambda shard, _: shard.share_partitions.delete(GROUP, [ids[each] for each in names])
        )
        return work

    with pytest.raises(KafkaError) as raised:
        delete("t")
    assert raised.value.code is ErrorCode.NON_EMPTY_GROUP
    model.beat("a", -1)
    model.named.put("v", 1)
    work = delete("t", "v")
    assert work.delete == {ids["t"]: [0, 1]}
    assert model.group().partitions.deleting == {ids["t"]: "t"}
    assert set(model.group().partitions.initialized) == {ids["u"]}
    model.share_join("b", "t")
    left = model.plan()
    assert left is not None
    assert not left.initialize
    assert left.delete == {ids["t"]: range(2)}
    model.finish(left)
    fresh = model.plan()
    assert fresh is not None
    assert model.starts(fresh) == {"t": {0: -1, 1: -1}}


def test_a_deletion_that_failed_is_left_to_be_done() -> None:
    """SHR-32: by the next request or the next member, also of another coordinator."""
    model = ShareModel({"t": 1})
    model.share_join("a")
    model.make_all()
    model.beat("a", -1)
    topic_id = model.named.ids["t"]
    work = model.run(lambda shard, _: shard.share_partitions.delete(GROUP))
    model.finish(work, kept=[topic_id])
    model.restart()
    again = model.run(lambda shard, _: shard.share_partitions.delete(GROUP))
    assert again.delete == {topic_id: [0]}
    model.finish(again)
    assert model.group().partitions.is_empty


def test_altering_waits_for_a_deletion() -> None:
    """SHR-32: what is left of that would take the new state with it."""
    model = ShareModel({"t": 1})
    model.share_join("a")
    model.make_all()
    model.beat("a", -1)
    topic_id = model.named.ids["t"]
    model.run(lambda shard, _: shard.share_partitions.delete(GROUP))
    with pytest.raises(KafkaError) as raised:
        model.run(
            lambda shard, now: shard.share_partitions.alter(GROUP, {topic_id: {0: 1}}, "h", now)
        )
    assert raised.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_states_of_partitions_add_up() -> None:
    """SHR-29: a partition is in one of the states."""
    one, two = b"1" * 16, b"2" * 16
    both = {one: TopicState("a", frozenset((0, 1))), two: TopicState("b", frozenset((0,)))}
    states = PartitionStates().with_initializing(both)
    states = states.with_initialized({one: TopicState("a", frozenset((1,)))})
    assert states.initializing == {one: TopicState("a", frozenset((0,))), two: both[two]}
    assert (states.initialized_of(one), states.known_of(one)) == ({1}, {0, 1})
    assert states.count == 3
    states = states.with_deleting({one: "a"})
    assert states.topic_ids() == {one, two}
    assert states.known_of(one) == frozenset()
    assert states.without([one]).without([two]).is_empty

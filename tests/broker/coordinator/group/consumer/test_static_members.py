"""Static members of consumer groups. Source: CG-9."""

import pytest

from barnabas_broker.config.bounded_settings import Bounded
from barnabas_protocol.errors import ErrorCode, KafkaError
from tests.broker.coordinator.group.consumer.consumer_model import ConsumerModel

AT_ONCE = Bounded(0, 0, 0)


def test_a_static_member_comes_back_to_what_it_had() -> None:
    """CG-9: under another id, with epochs from 0, and without another group epoch."""
    model = ConsumerModel({"t": 4}, assignment_interval_ms=AT_ONCE)
    a = model.client("a", instance_id="i").join()
    b = model.client("b").join()
    model.settle(a, b)
    epoch, owned = model.group().group_epoch, a.owned
    a.leave(-2)
    assert model.group().members["a"].member_epoch == -2
    back = model.client("a2", instance_id="i").join()
    assert back.owned == owned
    assert back.epoch == model.group().assignment_epoch
    assert model.group().group_epoch == epoch
    assert set(model.group().members) == {"a2", "b"}
    assert model.beat_error("a", epoch, instance_id="i") is ErrorCode.FENCED_INSTANCE_ID
    assert model.beat_error("a", epoch) is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_instance_id_in_use_is_not_given_away() -> None:
    """CG-9: 111 while its owner lives."""
    model = ConsumerModel()
    model.consumer_join("a", instance_id="i")
    with pytest.raises(KafkaError, match="owned by a member") as caught:
        model.consumer_join("b", instance_id="i")
    assert caught.value.code is ErrorCode.UNRELEASED_INSTANCE_ID
    assert list(model.group().members) == ["a"]
    assert model.consumer_join("a", instance_id="i").member_epoch == 1


def test_a_static_member_that_is_away_keeps_its_partitions_for_its_session() -> None:
    """CG-9: the timer runs on; after it they are free."""
    model = ConsumerModel({"t": 2})
    a = model.client("a", instance_id="i").join()
    b = model.client("b").join()
    model.settle(a, b)
    a.leave(-2)
    b.step()
    assert b.count == 1
    model.restart()
    b.step()
    assert b.count == 1
    for _ in range(44):
        model.advance(1_000)
        b.step()
    assert "a" in model.group().members
    model.advance(1_000)
    assert "a" not in model.group().members
    model.settle(b)
    assert b.count == 2


def test_the_same_id_may_come_back_too() -> None:
    """CG-9: from a leave for a while."""
    model = ConsumerModel({"t": 2})
    a = model.client("a", instance_id="i").join()
    a.leave(-2)
    a.join()
    assert (a.count, a.epoch) == (2, 1)
    assert model.group().group_epoch == 1


def test_instances_that_nobody_has_are_unknown() -> None:
    """CG-9: 25, for heartbeats and for leaving."""
    model = ConsumerModel()
    model.consumer_join("a", instance_id="i")
    for epoch in (1, -1, -2):
        assert model.beat_error("a", epoch, instance_id="x") is ErrorCode.UNKNOWN_MEMBER_ID
        assert model.beat_error("b", epoch, instance_id="i") is ErrorCode.FENCED_INSTANCE_ID
    model.beat("a", -1, instance_id="i")
    assert not model.group().members


def test_a_refused_take_over_gives_the_instance_back() -> None:
    """OFS-5: to the member that had it."""
    model = ConsumerModel({"t": 2})
    a = model.client("a", instance_id="i").join()
    a.leave(-2)
    model.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
    with pytest.raises(KafkaError):
        model.consumer_join("b", instance_id="i")
    model.fail_with = None
    assert list(model.group().members) == ["a"]
    assert model.group().static_member_ids == {"i": "a"}
    assert model.client("b", instance_id="i").join().count == 2


def test_a_member_that_takes_another_instance_over_lets_its_own_partitions_go() -> None:
    """CG-9, CG-2: they are in no target any more, so there is to be another one."""
    model = ConsumerModel({"t": 4}, assignment_interval_ms=AT_ONCE)
    first, second = (
        model.client(each, instance_id=instance).join() for each, instance in ("ai", "bj")
    )
    model.settle(first, second)
    second.leave(-2)
    both = model.client("a", instance_id="j").join()
    model.settle(both)
    assert both.count == 4
    assert model.group().static_member_ids == {"j": "a"}

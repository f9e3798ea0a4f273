"""Patterns of subscriptions: which are valid, when they are resolved, what comes of it. CG-8."""

import pytest

from barnabas_broker.config.bounded_patterns import STEPS_PER_TURN, UNICODE_CLASSES_MAX
from barnabas_broker.config.bounded_settings import Bounded
from barnabas_broker.coordinator.group.consumer.patterns import (
    NAMES_PER_TURN,
    check_pattern,
    matching,
    matching_in_turns,
)
from barnabas_protocol.errors import ErrorCode, KafkaError
from tests.broker.coordinator.group.consumer.consumer_model import Client, ConsumerModel
from tests.support.group_model import GROUP

AT_ONCE = Bounded(0, 0, 0)


def model_of(**topics: int) -> ConsumerModel:
    return ConsumerModel(topics, assignment_interval_ms=AT_ONCE)


def by_pattern(model: ConsumerModel, member_id: str, pattern: str) -> Client:
    return model.client(
        member_id, subscribed_topic_names=None, subscribed_topic_regex=pattern
    ).join()


def answer(model: ConsumerModel) -> list[str]:
    """Give the shard what it has asked for; returns the patterns."""
    asked, model.asked = model.asked, []
    for group_id, patterns in asked:
        matched = {each: frozenset(matching(each, model.named.names())) for each in patterns}
        model.run(
            lambda shard, now, group_id=group_id, matched=matched: shard.patterns.resolved(
                group_id, matched, now
            )
        )
    return sorted(each for _, patterns in asked for each in patterns)


def test_a_pattern_gives_topics_when_it_is_resolved() -> None:
    """CG-8: not before; whole names only."""
    model = model_of(orders=2, orders_old=2, x=1)
    a = by_pattern(model, "a", "ord.*s")
    assert (a.epoch, a.count) == (1, 0)
    assert answer(model) == ["ord.*s"]
    model.settle(a)
    assert a.owned == {"orders": [0, 1]}
    assert model.group().group_epoch == 2
    model.restart()
    assert model.group().patterns["ord.*s"].topics == {"orders"}
    assert a.step() is False


def test_names_and_a_pattern_add_up() -> None:
    """CG-8."""
    model = model_of(t=1, u=1, v=1)
    a = model.client("a", subscribed_topic_names=["t"], subscribed_topic_regex="u|v").join()
    answer(model)
    model.settle(a)
    assert a.owned == {"t": [0], "u": [0], "v": [0]}


@pytest.mark.parametrize(
    "pattern", ["(", "a(?=b)", r"(a)\1", "a*+", "x" * 5000, "(((a{1000}){1000}){1000})"]
)
def test_what_re2_cannot_take_is_refused(pattern: str) -> None:
    """CG-8: 128, and nothing of the member stays."""
    model = model_of(t=1)
    with pytest.raises(KafkaError) as caught:
        by_pattern(model, "a", pattern)
    assert caught.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert not model.shard.consumer_groups


def test_a_pattern_that_a_member_has_already_is_not_checked_anew() -> None:
    """CG-8: it is in force at once for the next member."""
    model = model_of(t=4)
    a = by_pattern(model, "a", "t")
    answer(model)
    model.settle(a)
    b = by_pattern(model, "b", "t")
    model.settle(a, b)
    assert [a.count, b.count] == [2, 2]
    assert not model.asked


def test_new_topics_are_matched_after_ten_seconds_at_the_earliest() -> None:
    """CG-8: all patterns of a group together."""
    model = model_of(t1=1)
    a = by_pattern(model, "a", "t.")
    answer(model)
    model.settle(a)
    model.named.put("t2", 1)
    a.step()
    assert not model.asked
    model.advance(10_000)
    a.step()
    assert answer(model) == ["t."]
    model.settle(a)
    assert a.owned == {"t1": [0], "t2": [0]}
    model.advance(20_000)
    a.step()
    assert not model.asked, "nothing is new"


def test_patterns_are_matched_again_after_the_refresh_interval() -> None:
    """CG-8: whatever has changed."""
    model = model_of(t1=1)
    a = by_pattern(model, "a", "t.")
    answer(model)
    for _ in range(600):
        model.advance(1_000)
        a.step()
    assert answer(model) == ["t."]


def test_one_question_at_a_time_and_one_that_got_lost_is_asked_again() -> None:
    """CG-8: the coordinator may have been busy."""
    model = model_of(t=1)
    a = by_pattern(model, "a", "t")
    by_pattern(model, "b", "u")
    a.step()
    assert len(model.asked) == 1
    for _ in range(12):
        model.advance(5_000)
        a.step()
        model.beat("b", 2 if model.group().members["b"].member_epoch == 2 else 1)
    assert len(model.asked) == 2
    assert model.asked[1] == (GROUP, {"t", "u"})


def test_the_last_subscriber_takes_its_pattern_along() -> None:
    """CG-8: by another pattern, by names, or by leaving."""
    model = model_of(t=1)
    a, b = by_pattern(model, "a", "t"), by_pattern(model, "b", "t")
    answer(model)
    model.settle(a, b)
    a.step(subscribed_topic_regex="")
    assert "t" in model.group().patterns
    assert model.group().members["a"].pattern is None
    b.leave()
    assert not model.group().patterns
    model.settle(a)
    assert a.count == 0


def test_a_result_for_a_group_that_is_gone_changes_nothing() -> None:
    """CG-8: the members may have left meanwhile."""
    model = model_of(t=1)
    by_pattern(model, "a", "t").leave()
    answer(model)
    assert not model.group().patterns
    model.run(lambda shard, _: shard.commits.delete_group(GROUP))
    model.run(lambda shard, now: shard.patterns.resolved(GROUP, {"t": frozenset("t")}, now))
    assert not model.shard.consumer_groups


def test_a_refused_result_is_asked_for_again() -> None:
    """OFS-5."""
    model = model_of(t=1)
    a = by_pattern(model, "a", "t")
    model.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
    with pytest.raises(KafkaError):
        answer(model)
    model.fail_with = None
    assert not model.group().patterns
    a.step()
    answer(model)
    model.settle(a)
    assert a.count == 1


def test_valid_patterns() -> None:
    """CG-8: RE2's own syntax."""
    for pattern in ("a.*", r"\pL+", "(?i)orders", "[[:alpha:]]+", ""):
        check_pattern(pattern, 100)
    assert matching("(?i)orders", ["Orders", "orders2"]) == ["Orders"]


def test_a_pattern_that_cannot_be_used_keeps_what_it_had() -> None:
    """CG-8: it came from Kafka, or from an older release; those of other members go on."""
    model = model_of(t=1, u=1)
    a, b = by_pattern(model, "a", "t"), by_pattern(model, "b", "u")
    answer(model)
    model.settle(a, b)
    matched = {"t": None, "u": frozenset[str]()}
    model.run(lambda shard, now: shard.patterns.resolved(GROUP, matched, now))
    model.settle(a, b)
    assert (a.count, b.count) == (1, 0)


@pytest.mark.parametrize(
    "pattern",
    ["(.?){1000}", "(a{1000}){2}", "a{1000}" * 100, r"\pL|" * UNICODE_CLASSES_MAX + r"\PL"],
)
def test_a_pattern_that_takes_long_is_refused(pattern: str) -> None:
    """CG-8: to be compiled, or for each name; nothing holds the loop for long."""
    with pytest.raises(KafkaError) as caught:
        check_pattern(pattern, 4_096)
    assert caught.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_alternatives_of_a_hundred_names_are_a_pattern() -> None:
    """CG-8: what clients want of patterns is far from the bounds."""
    pattern = "|".join(f"team-{number}-orders-of-the-day-.*" for number in range(120))
    check_pattern(pattern, 4_096)
    assert matching(pattern, ["team-7-orders-of-the-day-x", "team-x"]) == [
        "team-7-orders-of-the-day-x"
    ]


def test_names_are_matched_in_turns_by_what_they_cost() -> None:
    """CG-8: few at a time for a large program and long names, and all of them in the end."""
    names = [f"{number:04d}" + "a" * 200 for number in range(1_200)]
    cheap = list(matching_in_turns("[0-3].*", names))
    assert max(map(len, cheap)) <= NAMES_PER_TURN
    assert [name for turn in cheap for name in turn] == names
    costly = list(matching_in_turns("(.?){400}", names[:50]))
    assert len(costly) > 50 * 200 * 400 // STEPS_PER_TURN
    assert [name for turn in costly for name in turn] == names[:50]


def test_groups_that_are_gone_leave_nothing_of_their_patterns() -> None:
    """CG-8: clients make up ids of groups without end."""
    model = model_of(t=1)
    for number in range(20):
        group = f"g{number}"
        model.consumer_join(
            "a", group=group, subscribed_topic_names=None, subscribed_topic_regex="t"
        )
        answer(model)
        model.beat("a", -1, group=group)
        model.run(lambda shard, _, group=group: shard.commits.delete_group(group))
    kept = vars(model.shard.patterns).values()
    assert not any(each for each in kept if isinstance(each, dict))

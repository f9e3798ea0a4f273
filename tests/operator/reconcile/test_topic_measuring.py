"""Messages per second from end offsets."""

import asyncio
from collections.abc import Mapping

import pytest

from barnabas_operator.gateway.kafka_topics import TopicMeasures
from barnabas_operator.reconcile.topic_measuring import Measuring, MessageRates
from barnabas_operator.reconcile.topic_state import ObservedTopic


def test_a_rate_needs_two_measures_some_time_apart() -> None:
    rates = MessageRates()
    rates.update(0, {"a": {0: 100, 1: 0}})
    assert rates.rate("a") is None
    rates.update(5, {"a": {0: 150, 1: 0}})
    assert rates.rate("a") is None
    rates.update(20, {"a": {0: 200, 1: 100}})
    assert rates.rate("a") == 10
    rates.update(60, {"a": {0: 200, 1: 100}})
    assert rates.rate("a") == 0


def test_a_topic_that_came_later_or_was_made_anew_has_no_rate_at_first() -> None:
    rates = MessageRates()
    rates.update(0, {"a": {0: 1000}})
    rates.update(10, {"a": {0: 1000}, "b": {0: 5}})
    rates.update(30, {"a": {0: 3}, "b": {0: 5}})
    assert rates.rate("a") is None
    assert rates.rate("b") == 0
    assert rates.rate("c") is None


def test_partitions_that_were_added_or_have_no_leader_do_not_count() -> None:
    rates = MessageRates()
    rates.update(0, {"a": {0: 0, 1: 0}})
    rates.update(20, {"a": {0: 20, 2: 1_000_000}})
    assert rates.rate("a") == 1


class _Measurer:
    def __init__(self) -> None:
        self.calls = 0
        self.end = 0

    async def measure(self, topics: Mapping[str, ObservedTopic]) -> TopicMeasures:
        self.calls += 1
        return TopicMeasures(
            sizes_bytes={name: 10 for name in topics if name != "empty"},
            end_offsets={name: {0: self.end} for name in topics},
        )


@pytest.fixture
def topics() -> dict[str, ObservedTopic]:
    return {
        name: ObservedTopic(name=name, topic_id=name, assignments=((1,),))
        for name in ("a", "empty")
    }


def test_brokers_are_measured_now_and_then_only(topics: dict[str, ObservedTopic]) -> None:
    """A burst of changes is no burst of questions about sizes."""

    async def run() -> None:
        measuring, measurer = Measuring(), _Measurer()
        for second in range(20):
            await measuring.update(second, measurer, topics)
        assert measurer.calls == 1
        assert (measuring.size_bytes("a"), measuring.size_bytes("empty")) == (10, 0)
        assert measuring.size_bytes("unknown") is None
        measurer.end = 100
        await measuring.update(20, measurer, topics)
        assert measuring.rate("a") == 5
        new = ObservedTopic(name="a", topic_id="another", assignments=((1,),))
        await measuring.update(21, measurer, {**topics, "a": new})
        assert measurer.calls == 3

    asyncio.run(run())

"""Carrying out a plan: batches by kind, and failures that stay with their topic."""

import asyncio

from barnabas_operator.reconcile.topic_apply import SkippedError, apply_plan, reconcile_topics
from barnabas_operator.reconcile.topic_plan import plan_topics
from barnabas_operator.reconcile.topic_state import ChangeConfig, GrowPartitions, ObservedTopic
from barnabas_operator.spec import TopicSpec
from tests.support.memory_topics import MemoryTopics


def spec(topic: str, **fields: object) -> TopicSpec:
    return TopicSpec(resource=topic, topic=topic, **fields)  # type: ignore[arg-type]


def test_a_failed_step_skips_the_later_ones_of_its_topic_only() -> None:
    topics = [ObservedTopic(name=name, assignments=((1,),)) for name in ("a", "b")]
    memory = MemoryTopics((1,), topics)
    memory.failing["a"] = RuntimeError("the broker said no")
    specs = [spec(name, partitions=2, config={"x": "1"}) for name in ("a", "b")]

    async def run() -> None:
        plan = plan_topics(specs, await memory.observe(["a", "b"]))
        results = await apply_plan(plan, memory)
        assert [result.step for result in results] == list(plan.steps)
        errors = {(result.step.topic, type(result.step)): type(result.error) for result in results}
        assert errors == {
            ("a", GrowPartitions): RuntimeError,
            ("a", ChangeConfig): SkippedError,
            ("b", GrowPartitions): type(None),
            ("b", ChangeConfig): type(None),
        }

    asyncio.run(run())
    assert memory.topics["b"].partitions == 2


def test_growing_and_moving_at_once_takes_a_second_plan_and_no_third() -> None:
    """Partitions that are added get the old number of replicas; the next plan gives them more."""
    memory = MemoryTopics((1, 2), [ObservedTopic(name="a", assignments=((1,),))])
    seen = []

    async def run() -> None:
        last, results = await reconcile_topics(
            [spec("a", partitions=3, replicas=2)], memory, seen.append
        )
        assert last.steps == ()
        assert all(result.error is None for result in results)

    asyncio.run(run())
    assert 1 <= len(seen) <= 2
    assert memory.topics["a"].replicas == 2


def test_reconciling_stops_at_the_first_failure() -> None:
    """The next round is the caller's: a queue with backoff, or a person."""
    memory = MemoryTopics((1,))
    memory.failing["a"] = RuntimeError("no")

    async def run() -> None:
        plan, results = await reconcile_topics([spec("a")], memory)
        assert len(plan.steps) == 1
        assert [str(result.error) for result in results] == ["no"]

    asyncio.run(run())

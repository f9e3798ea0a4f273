"""Declared topics on a real broker, through the same gateway that the operator uses."""

import asyncio
from collections.abc import Callable

from barnabas_client.admin.admin import Admin
from barnabas_operator.gateway.kafka_topics import KafkaTopics
from barnabas_operator.reconcile.topic_apply import reconcile_topics
from barnabas_operator.reconcile.topic_plan import plan_topics
from barnabas_operator.reconcile.topic_state import Reason
from barnabas_operator.spec import DeletionPolicy, DriftPolicy, TopicSpec
from tests.support.in_process_broker import eventually


def test_topics_are_made_changed_and_left_alone_as_declared(
    bootstrap: str, unique: Callable[[str], str]
) -> None:
    """Issue 4: apply -f; the second time nothing is done (operator.md 2)."""
    name = unique("declared")

    def spec(**fields: object) -> TopicSpec:
        return TopicSpec(resource=name, topic=name, **fields)  # type: ignore[arg-type]

    async def run() -> None:
        async with Admin(bootstrap) as admin:
            gateway = KafkaTopics(admin)

            async def settle(wanted: TopicSpec) -> tuple[int, list[Reason]]:
                """How many steps it took, and what is told at the end."""
                last, results = await reconcile_topics([wanted], gateway)
                assert [result.error for result in results] == [None] * len(results)
                assert last.steps == ()

                # A broker may show what was done a moment later.
                seen = last

                async def is_settled() -> bool:
                    nonlocal seen
                    seen = plan_topics([wanted], await gateway.observe([name]))
                    return not seen.steps

                await eventually(is_settled)
                return len(results), [finding.reason for finding in seen.findings]

            config = {"retention.ms": "86400000", "cleanup.policy": "delete"}
            assert await settle(spec(partitions=2, replicas=1, config=config)) == (1, [])
            assert await settle(spec(partitions=3, config={"retention.ms": "1000"})) == (
                2,
                [Reason.DRIFT],
            )
            assert await settle(spec(drift_policy=DriftPolicy.REVERT)) == (1, [])
            topic = (await gateway.observe([name])).topics[name]
            assert (topic.partitions, topic.replicas, dict(topic.config)) == (3, 1, {})
            assert await settle(spec(partitions=1)) == (0, [Reason.NOT_SUPPORTED])
            leaving = spec(is_being_deleted=True, deletion_policy=DeletionPolicy.DELETE)
            assert await settle(leaving) == (1, [])
            assert (await gateway.observe([name])).topics == {}

    asyncio.run(run())


def test_many_topics_are_made_and_seen_in_batches(
    bootstrap: str, unique: Callable[[str], str]
) -> None:
    """operator.md 2: no request for each topic; fewer topics here, each kind in one batch."""
    names = [unique("many") for _ in range(50)]
    specs = [TopicSpec(resource=name, topic=name, partitions=1) for name in names]

    async def run() -> None:
        async with Admin(bootstrap) as admin:
            last, results = await reconcile_topics(specs, KafkaTopics(admin))
            assert len(results) == len(names)
            assert last.steps == ()
            (await admin.topics.delete(names)).unwrap()

    asyncio.run(run())

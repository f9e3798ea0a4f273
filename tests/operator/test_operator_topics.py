"""The whole operator, with an API server and a broker: Topics from their making to their end."""

import asyncio
from pathlib import Path

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.configs import ConfigChange, ConfigResource
from barnabas_client.admin.values.topics import NewTopic
from barnabas_operator.kubernetes.kinds import EVENT, TOPIC
from tests.support.operator_world import bootstrap_of, until, world_with_broker
from tests.support.real_api_server import RealApiServer

World = RealApiServer | None


def test_a_declared_topic_is_made_and_told_and_then_left_alone(
    tmp_path: Path, real_or_fake: World
) -> None:
    """operator.md 3, pain 9 and 13: live columns, and no write while nothing happens."""

    async def run() -> None:
        async with world_with_broker(tmp_path, real_or_fake) as (world, _), world.operator() as one:
            await world.put_topic("orders", partitions=3, config={"retention.ms": 86400000})
            await world.until_ready("orders")
            status = await world.status("orders")
            assert status["topicName"] == "orders"
            assert (status["partitions"], status["replicas"], status["leaders"]) == (3, 1, "3/3")
            assert (status["underReplicatedPartitions"], status["size"]) == (0, "0 B")
            assert status["drift"] == "none"
            assert status["config"] == {"retention.ms": "86400000"}
            assert len(status["topicId"]) == 22
            passes = await one.call(lambda: passes_of(one))
            assert world.writes() != []

            async def has_looked_again() -> bool:
                return bool(await one.call(lambda: passes_of(one)) >= passes + 3)

            await until(has_looked_again)
            assert world.writes() == []

    asyncio.run(run())


def test_a_changed_resource_changes_the_topic(tmp_path: Path, real_or_fake: World) -> None:
    """operator.md 2: the resource wins; partitions grow and settings follow."""

    async def run() -> None:
        async with world_with_broker(tmp_path, real_or_fake) as (world, broker), world.operator():
            await world.put_topic("orders", partitions=1)
            await world.until_ready("orders")
            await world.change_topic(
                "orders", {"spec": {"partitions": 2, "config": {"retention.ms": 1000}}}
            )
            await world.until_ready("orders")
            status = await world.status("orders")
            assert status["leaders"] == "2/2"
            assert status["config"] == {"retention.ms": "1000"}
            await world.change_topic("orders", {"spec": {"replicas": 3}})
            found = await world.until_condition("orders", "False", "NotSupported")
            assert found["message"] == "3 replicas need 3 brokers and there is 1"
            assert (await world.condition("orders", "Stalled"))["status"] == "True"
            assert broker.is_ready

    asyncio.run(run())


def test_the_oldest_of_two_resources_has_the_topic(tmp_path: Path, real_or_fake: World) -> None:
    """operator.md 2: the other one says who was first, and takes over when that one goes."""

    async def run() -> None:
        async with world_with_broker(tmp_path, real_or_fake) as (world, _), world.operator():
            await world.put_topic("first", topicName="orders", partitions=1)
            await world.until_ready("first")
            # Resources are dated to the second; the name decides within one.
            await world.put_topic("second", topicName="orders", partitions=2)
            found = await world.until_condition("second", "False", "ResourceConflict")
            assert f"'{world.namespace}/first' declared this topic first" in found["message"]
            assert (await world.status("first"))["partitions"] == 1
            await world.delete_topic("first")
            await world.until_ready("second")
            assert (await world.status("second"))["partitions"] == 2

    asyncio.run(run())


def test_drift_is_told_and_reverted_when_that_is_wanted(
    tmp_path: Path, real_or_fake: World
) -> None:
    """operator.md 2: what somebody set on the broker is found without any event."""

    async def run() -> None:
        async with (
            world_with_broker(tmp_path, real_or_fake) as (world, broker),
            Admin(bootstrap_of(broker)) as admin,
            world.operator(),
        ):
            await world.put_topic("orders", config={"cleanup.policy": None})
            await world.until_ready("orders")
            change = [
                ConfigChange.set("retention.ms", "1000"),
                ConfigChange.set("cleanup.policy", "compact"),
            ]
            (await admin.configs.alter({ConfigResource.topic("orders"): change})).unwrap()
            found = await world.until_condition("orders", "True", type_="DriftDetected")
            assert "retention.ms=1000" in found["message"]
            assert (await world.status("orders"))["drift"] == "retention.ms"
            assert (await world.condition("orders"))["status"] == "True"
            await world.change_topic("orders", {"spec": {"driftPolicy": "Revert"}})

            async def is_reverted() -> bool:
                return bool((await world.status("orders"))["drift"] == "none")

            await until(is_reverted)
            # The null in the resource has handed this one over.
            assert (await world.status("orders"))["config"] == {"cleanup.policy": "compact"}
            assert await world.condition("orders", "DriftDetected") == {}

    asyncio.run(run())


def test_a_paused_topic_is_only_looked_at(tmp_path: Path, real_or_fake: World) -> None:
    """operator.md 1: by the field or by the annotation, and visible in the status."""

    async def run() -> None:
        async with world_with_broker(tmp_path, real_or_fake) as (world, _), world.operator():
            await world.put_topic("orders", partitions=1)
            await world.until_ready("orders")
            pause = {"metadata": {"annotations": {"barnabas.dev/paused": "true"}}}
            await world.change_topic("orders", {**pause, "spec": {"partitions": 2}})
            found = await world.until_condition("orders", "False", "Paused")
            assert "grow topic orders to 2 partitions" in found["message"]
            assert (await world.status("orders"))["partitions"] == 1
            goes_on = {"metadata": {"annotations": {"barnabas.dev/paused": None}}}
            await world.change_topic("orders", goes_on)
            await world.until_ready("orders")
            assert (await world.status("orders"))["partitions"] == 2

    asyncio.run(run())


def test_a_topic_stays_unless_its_resource_says_otherwise(
    tmp_path: Path, real_or_fake: World
) -> None:
    """operator.md 3, pain 2: Retain by default, no finalizer; Delete takes the topic along."""

    async def run() -> None:
        async with (
            world_with_broker(tmp_path, real_or_fake) as (world, broker),
            Admin(bootstrap_of(broker)) as admin,
            world.operator(),
        ):
            await admin.topics.create([NewTopic(name="stranger", partition_count=1)])
            await world.put_topic("kept")
            await world.put_topic("doomed", deletionPolicy="Delete")
            await world.until_ready("kept", "doomed")
            assert "finalizers" not in (await world.topic("kept"))["metadata"]
            assert (await world.topic("doomed"))["metadata"]["finalizers"] == ["barnabas.dev/topic"]
            for name in ("kept", "doomed"):
                await world.delete_topic(name)
                await world.until_gone(TOPIC, name)
            names = {listing.name for listing in await admin.topics.list()}
            assert names == {"stranger", "kept"}

    asyncio.run(run())


def passes_of(operator: object) -> float:
    """How many passes over topics have gone well."""
    process = operator.process  # type: ignore[attr-defined]
    value = process.metrics.registry.get_sample_value(
        "barnabas_operator_reconciles_total", {"kind": "topics", "result": "done"}
    )
    return float(value or 0)


def test_a_topic_that_was_there_before_stays_unless_it_is_said_that_it_may_go(
    tmp_path: Path, real_or_fake: World
) -> None:
    """Row 8 of the findings: anybody could delete what somebody else had made and filled."""

    async def run() -> None:
        async with (
            world_with_broker(tmp_path, real_or_fake) as (world, broker),
            world.operator(),
            Admin(bootstrap_of(broker)) as admin,
        ):
            new = [NewTopic(name=name, partition_count=1) for name in ("kept", "given")]
            (await admin.topics.create(new)).unwrap()
            for name in ("kept", "given", "made"):
                await world.put_topic(name, deletionPolicy="Delete")
            await world.until_ready("kept", "given", "made")
            assert (await world.status("kept"))["origin"] == "Adopted"
            assert (await world.status("made"))["origin"] == "Made"
            acknowledged = {"metadata": {"annotations": {"barnabas.dev/adopt": "true"}}}
            await world.change_topic("given", acknowledged)
            for name in ("kept", "given", "made"):
                await world.delete_topic(name)
                await world.until_gone(TOPIC, name)
            assert [one.name for one in await admin.topics.list()] == ["kept"]
            events = await world.api.list(EVENT, namespace=world.namespace)
            assert "TopicKept" in [event["reason"] for event in events]

    asyncio.run(run())


def test_a_topic_that_the_brokers_do_not_delete_holds_its_resource_up_for_a_while_only(
    tmp_path: Path, real_or_fake: World
) -> None:
    """Row 7 of the findings: with delete.topic.enable=false, or without a controller, for ever."""

    async def run() -> None:
        settings = {"delete.topic.enable": "false"}
        async with (
            world_with_broker(tmp_path, real_or_fake, **settings) as (world, _),
            world.operator(unreachable_seconds=2.0),
        ):
            await world.put_topic("stays", deletionPolicy="Delete")
            await world.until_ready("stays")
            await world.delete_topic("stays")
            await world.until_gone(TOPIC, "stays")
            events = await world.api.list(EVENT, namespace=world.namespace)
            assert "TopicNotDeleted" in [event["reason"] for event in events]

    asyncio.run(run())

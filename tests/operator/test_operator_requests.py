"""The whole operator and what resources may ask for: Secrets, listings, namespaces let in."""

import asyncio
import base64
from pathlib import Path

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.topics import NewTopic
from barnabas_operator.kubernetes.kinds import BROKER, EVENT, NAMESPACE, SECRET, TOPIC
from tests.support.in_process_broker import running_broker
from tests.support.operator_world import (
    bootstrap_of,
    operator_world,
    until,
    world_with_broker,
)
from tests.support.real_api_server import RealApiServer

World = RealApiServer | None


def test_a_topic_gets_a_secret_that_says_how_to_reach_it(
    tmp_path: Path, real_or_fake: World
) -> None:
    """operator.md 3, pain 12; and nobody else's Secret is overwritten or removed."""

    async def run() -> None:
        async with world_with_broker(tmp_path, real_or_fake) as (world, broker), world.operator():
            foreign = {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"namespace": world.namespace, "name": "foreign"},
                "data": {"key": "dmFsdWU="},
            }
            await world.api.create(foreign)
            await world.put_topic("orders", connectionSecret={"name": "orders-connection"})
            await world.until_condition("orders", "True", type_="ConnectionSecret")
            secret = await world.api.get(SECRET, world.namespace, "orders-connection")
            assert secret is not None
            assert {
                key: base64.b64decode(text).decode() for key, text in secret["data"].items()
            } == {
                "bootstrap.servers": bootstrap_of(broker),
                "security.protocol": "PLAINTEXT",
                "topic": "orders",
            }
            await world.change_topic("orders", {"spec": {"connectionSecret": {"name": "foreign"}}})
            await world.until_condition("orders", "False", "NotOurs", type_="ConnectionSecret")
            await world.until_gone(SECRET, "orders-connection")
            kept = await world.api.get(SECRET, world.namespace, "foreign")
            assert kept is not None
            assert kept["data"] == {"key": "dmFsdWU="}
            await world.change_topic("orders", {"spec": {"connectionSecret": {"name": "own"}}})
            await world.until_condition("orders", "True", type_="ConnectionSecret")
            await world.delete_topic("orders")
            await world.until_gone(SECRET, "own")

    asyncio.run(run())


def test_undeclared_topics_are_listed_on_request_and_never_acted_on(
    tmp_path: Path, real_or_fake: World
) -> None:
    """operator.md 8, item 5: `kubectl get topics` lists them, too; a declaration replaces them."""

    async def run() -> None:
        async with (
            operator_world(tmp_path, real_or_fake) as world,
            running_broker(tmp_path / "data") as broker,
            Admin(bootstrap_of(broker)) as admin,
            world.operator(resync_seconds=0.5),
        ):
            names = ("Orders_Made", "plain", "hidden")
            await admin.topics.create([NewTopic(name=name, partition_count=2) for name in names])
            asked = {"barnabas.dev/discover-topics": "Orders*, plain"}
            await world.put_broker(bootstrap_of(broker), **asked)
            await world.until_condition("plain", "True", "Discovered")
            assert (await world.status("plain"))["leaders"] == "2/2"
            shown = await world.api.list(TOPIC, namespace=world.namespace)
            assert {one["spec"]["topicName"] for one in shown} == {"Orders_Made", "plain"}
            await world.put_topic("declared", topicName="plain", partitions=3)
            await world.until_ready("declared")
            await world.until_gone(TOPIC, "plain")
            (await admin.topics.delete(["Orders_Made"])).unwrap()

            async def is_only_declared() -> bool:
                left = await world.api.list(TOPIC, namespace=world.namespace)
                return [one["metadata"]["name"] for one in left] == ["declared"]

            await until(is_only_declared)
            left = {listing.name for listing in await admin.topics.list()}
            assert left == {"plain", "hidden"}

    asyncio.run(run())


def test_a_topic_that_was_only_shown_does_not_go_with_what_declares_it_later(
    tmp_path: Path, real_or_fake: World
) -> None:
    """Taking the label off makes a declaration of it, and not the operator's own topic."""

    async def run() -> None:
        async with (
            operator_world(tmp_path, real_or_fake) as world,
            running_broker(tmp_path / "data") as broker,
            Admin(bootstrap_of(broker)) as admin,
            world.operator(resync_seconds=0.5),
        ):
            (await admin.topics.create([NewTopic(name="filled", partition_count=1)])).unwrap()
            await world.put_broker(bootstrap_of(broker), **{"barnabas.dev/discover-topics": "*"})
            await world.until_condition("filled", "True", "Discovered")
            declared = {
                "metadata": {"labels": {"barnabas.dev/discovered": None}},
                "spec": {"deletionPolicy": "Delete"},
            }
            await world.change_topic("filled", declared)
            await world.until_condition("filled", "True", "AsDeclared")
            await world.delete_topic("filled")

            async def is_told() -> bool:
                events = await world.api.list(EVENT, namespace=world.namespace)
                return "TopicKept" in [event["reason"] for event in events]

            await until(is_told)
            assert [one.name for one in await admin.topics.list()] == ["filled"]

    asyncio.run(run())


def test_a_broker_may_say_which_namespaces_it_takes(tmp_path: Path, real_or_fake: World) -> None:
    """operator.md 3, pain 11: applications have their topics in their own namespaces."""

    async def run() -> None:
        async with operator_world(tmp_path, real_or_fake) as world:
            other = f"{world.namespace}-other"
            async with (
                running_broker(tmp_path / "data") as broker,
                world.operator(namespaces=(world.namespace, other)),
            ):
                made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}}
                await world.api.create(made)
                await world.put_broker(bootstrap_of(broker))
                reference = {"name": "demo", "namespace": world.namespace}
                topic = world.manifest(TOPIC, "theirs", {"brokerRef": reference})
                topic["metadata"]["namespace"] = other
                await world.api.create(topic)

                async def says(reason: str) -> bool:
                    found = await world.api.get(TOPIC, other, "theirs")
                    assert found is not None
                    conditions = (found.get("status") or {}).get("conditions") or ()
                    return reason in {one["reason"] for one in conditions}

                # By default only those of its own namespace.
                await until(lambda: says("NotAdmitted"))
                for allowed, reason in ((f"x, {other}", "AsDeclared"), ("x, y", "NotAdmitted")):
                    annotations = {"barnabas.dev/allowed-namespaces": allowed}
                    patch = {"metadata": {"annotations": annotations}}
                    await world.api.patch(BROKER, world.namespace, "demo", patch)
                    await until(lambda reason=reason: says(reason))
                await world.api.delete(NAMESPACE, None, other)

    asyncio.run(run())


def test_clusters_that_create_topics_by_themselves_are_warned_of(
    tmp_path: Path, real_or_fake: World
) -> None:
    """operator.md 2: auto.create.topics.enable makes topics that nobody declared."""

    async def run() -> None:
        properties = {"auto_create_topics_enable": "true"}
        async with (
            world_with_broker(tmp_path, real_or_fake, **properties) as (world, _),
            world.operator(),
        ):
            await world.put_topic("orders")
            await world.until_ready("orders")
            events = await world.api.list(EVENT, namespace=world.namespace)
            assert [event["reason"] for event in events if event["type"] == "Warning"] == [
                "AutoCreateTopics"
            ]

    asyncio.run(run())

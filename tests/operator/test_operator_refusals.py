"""The whole operator while every write is refused a few times, on both API servers."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.cluster.offsets import OffsetAndMetadata
from barnabas_operator.kubernetes.kinds import BROKER, CONSUMER_GROUP, SECRET, STATEFUL_SET, TOPIC
from barnabas_operator.work.key import KeyKind
from barnabas_protocol.ids import TopicPartition
from tests.support.in_process_broker import running_broker
from tests.support.operator_thread import running_operator
from tests.support.operator_world import OperatorWorld, bootstrap_of, operator_world, until
from tests.support.real_api_server import RealApiServer
from tests.support.refusing_api import RefusingApi

World = RealApiServer | None
PLACE = TopicPartition("orders", 0)
WRITES = {
    "PATCH topics",  # finalizers
    "PATCH topics/status",
    "POST topics",  # of topics that nobody declared
    "DELETE topics",
    "PATCH secrets",
    "DELETE secrets",
    "PATCH consumergroups/status",
    "PATCH brokers/status",
    "PATCH statefulsets",
    "PATCH services",
    "PATCH configmaps",
    "PATCH poddisruptionbudgets",
    "PATCH roles",
    "PATCH rolebindings",
    "PATCH serviceaccounts",
    "POST events",
}


@pytest.mark.parametrize("code", [409, 422, 500])
def test_whatever_is_refused_comes_about_all_the_same(
    tmp_path: Path, real_or_fake: World, code: int
) -> None:
    """Issue 6: 409, 422 and 500 injected, nothing stuck: the first of each write is refused."""

    async def run() -> None:
        async with (
            operator_world(tmp_path, real_or_fake) as world,
            running_broker(tmp_path / "data") as broker,
            Admin(bootstrap_of(broker)) as admin,
            RefusingApi(world.server.address, (code,)) as refusing,
        ):
            token = "test"
            if real_or_fake is not None:
                token = json.loads(real_or_fake.kubeconfig())["users"][0]["user"]["token"]
            kubeconfig = refusing.write_kubeconfig(tmp_path / "refusing", token)
            settings = replace(world.settings(), kubeconfig=str(kubeconfig))
            async with running_operator(settings, tuple(KeyKind)) as operator:
                await topics_come_and_go(world, admin, bootstrap_of(broker))
                await a_group_is_reset(world, admin)
                await brokers_are_made(world)
                assert operator.is_running
            assert set(refusing.refused) == WRITES

    asyncio.run(run())


async def topics_come_and_go(world: OperatorWorld, admin: Admin, bootstrap: str) -> None:
    """Finalizers, statuses, Secrets, events, and resources that the operator makes itself."""
    (await admin.topics.create([NewTopic(name="plain", partition_count=1)])).unwrap()
    await world.put_broker(bootstrap, **{"barnabas.dev/discover-topics": "plain"})
    secret = {"connectionSecret": {"name": "way"}}
    await world.put_topic("orders", partitions=1, deletionPolicy="Delete")
    await world.put_topic("other", partitions=1, **secret)
    await world.until_ready("orders", "other")
    await world.until_condition("plain", "True", "Discovered")
    await world.put_topic("declared", topicName="plain")
    await world.until_gone(TOPIC, "plain")
    await world.until_condition("other", "True", type_="ConnectionSecret")
    await world.change_topic("other", {"spec": {"connectionSecret": None, "partitions": 2}})
    await world.until_gone(SECRET, "way")
    await world.until_ready("other")
    await world.put_topic("doomed", deletionPolicy="Delete")
    await world.until_ready("doomed")
    await world.delete_topic("doomed")
    await world.until_gone(TOPIC, "doomed")
    assert "doomed" not in {listing.name for listing in await admin.topics.list()}


async def a_group_is_reset(world: OperatorWorld, admin: Admin) -> None:
    """Once, though its record was refused before and after."""
    (await admin.group_offsets.alter("billing", {PLACE: OffsetAndMetadata(4)})).unwrap()
    reset = {"id": "one", "to": "earliest"}
    spec = {"brokerRef": {"name": "demo"}, "reset": reset}
    await world.api.create(world.manifest(CONSUMER_GROUP, "billing", spec))

    async def is_done() -> bool:
        found = await world.api.get(CONSUMER_GROUP, world.namespace, "billing") or {}
        done = (found.get("status") or {}).get("reset") or {}
        return bool(done.get("phase") == "Done")

    await until(is_done)
    (committed,) = (await admin.group_offsets.list(["billing"])).unwrap().values()
    assert committed == {PLACE: OffsetAndMetadata(0)}


async def brokers_are_made(world: OperatorWorld) -> None:
    """All children of a Broker, whose status tells of them."""
    await world.api.create(world.manifest(BROKER, "own", {"replicas": 3}))

    async def is_told() -> bool:
        found = await world.api.get(BROKER, world.namespace, "own") or {}
        is_made = await world.api.get(STATEFUL_SET, world.namespace, "own") is not None
        return is_made and (found.get("status") or {}).get("ready") == "0/3"

    await until(is_told)

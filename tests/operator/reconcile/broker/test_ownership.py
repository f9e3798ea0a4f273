"""Objects of others that have the names of a Broker's children: neither written nor deleted."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from barnabas_operator.kubernetes.kinds import (
    BROKER,
    CONFIG_MAP,
    ROLE,
    SERVICE,
    STATEFUL_SET,
    Kind,
)
from barnabas_operator.work.key import Key, KeyKind
from tests.operator.reconcile.broker.broker_world import NAME, NAMESPACE, BrokerWorld, settled
from tests.operator.reconcile.broker.real_cluster import broker, connected, reconciler
from tests.support.fake_kubernetes_store import copied, merge_patched
from tests.support.real_api_server import RealApiServer

OTHERS = {"app": "pg"}


def foreign_set(name: str, template: str = "data") -> dict[str, Any]:
    """A StatefulSet of a data base, smaller than what our brokers want."""
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "labels": OTHERS},
        "spec": {
            "replicas": 2,
            "serviceName": "pg",
            "selector": {"matchLabels": OTHERS},
            "template": {
                "metadata": {"labels": OTHERS, "annotations": {}},
                "spec": {"containers": [{"name": "pg", "image": "postgres:16"}]},
            },
            "volumeClaimTemplates": [{"metadata": {"name": template}, "spec": claim}],
        },
    }


def foreign_objects(name: str) -> list[tuple[Kind, dict[str, Any]]]:
    """Objects of somebody else with the names of a Broker's children."""
    return [
        (STATEFUL_SET, foreign_set(name)),
        (
            CONFIG_MAP,
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": f"{name}-config"},
                "data": {"pg.conf": "x=1"},
            },
        ),
        (
            SERVICE,
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": f"{name}-bootstrap"},
                "spec": {"selector": OTHERS, "ports": [{"name": "sql", "port": 5432}]},
            },
        ),
    ]


def in_namespace(manifest: dict[str, Any], namespace: str) -> dict[str, Any]:
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}


@pytest.mark.parametrize("template", ["data", "pgdata"])
def test_a_foreign_stateful_set_of_the_brokers_name_is_left_alone_and_told(template: str) -> None:
    """Found by reading, 1: it was deleted and replaced; without our claim template, a crash."""
    world = BrokerWorld()
    foreign = world.store.create(STATEFUL_SET, NAMESPACE, foreign_set(NAME, template))
    before = copied(foreign)
    for _ in range(3):
        asyncio.run(world.reconcile())
    assert world.store.get(STATEFUL_SET, NAMESPACE, NAME) == before
    assert world.condition("Ready")["reason"] == "NotOurs"
    assert f"StatefulSet {NAME} was not made for this Broker" in world.condition("Ready")["message"]
    # Nothing of it is taken over half: no broker is stopped, no claim asked for.
    assert not any(" Pod " in write or "Claim" in write for write in world.api.writes)


def test_foreign_children_stay_as_they_are_while_the_others_are_made() -> None:
    world = BrokerWorld()
    befores = [
        (kind, copied(world.store.create(kind, NAMESPACE, one)))
        for kind, one in foreign_objects(NAME)[1:]
    ]
    asyncio.run(world.reconcile())
    asyncio.run(world.reconcile())
    for kind, before in befores:
        assert world.store.get(kind, NAMESPACE, before["metadata"]["name"]) == before
    message = world.condition("Stalled")["message"]
    assert f"ConfigMap {NAME}-config" in message
    assert f"Service {NAME}-bootstrap" in message
    assert world.store.get(ROLE, NAMESPACE, f"{NAME}-broker")
    assert world.store.get(STATEFUL_SET, NAMESPACE, NAME)


def test_a_child_that_another_controller_owns_is_named_with_its_owner() -> None:
    world = BrokerWorld()
    owner = {"apiVersion": "v1", "kind": "Database", "name": "pg", "uid": "u", "controller": True}
    kind, service = foreign_objects(NAME)[2]
    labels = {"barnabas.dev/broker": NAME}
    metadata = {**service["metadata"], "ownerReferences": [owner], "labels": labels}
    world.store.create(kind, NAMESPACE, {**service, "metadata": metadata})
    asyncio.run(world.reconcile())
    asyncio.run(world.reconcile())
    message = f"Service {NAME}-bootstrap belongs to Database pg"
    assert world.condition("Ready")["message"] == message


def test_children_that_were_set_free_are_taken_up_again() -> None:
    """As `kubectl delete --cascade=orphan` leaves them: with our labels, owned by nobody."""
    world = settled()
    for kind, name in ((STATEFUL_SET, NAME), (SERVICE, f"{NAME}-bootstrap")):
        patch = {"metadata": {"ownerReferences": None}}
        world.store.update(
            kind, NAMESPACE, name, lambda old, patch=patch: merge_patched(old, patch)
        )
    world.change({"spec": {"config": {"num.recovery.threads": 2}}})
    asyncio.run(world.settle())
    assert world.condition("Ready")["status"] == "True"
    assert world.store.get(STATEFUL_SET, NAMESPACE, NAME)["metadata"]["ownerReferences"]


def test_a_foreign_object_that_goes_makes_room() -> None:
    world = BrokerWorld()
    world.store.create(STATEFUL_SET, NAMESPACE, foreign_set(NAME))
    asyncio.run(world.reconcile())
    assert world.condition("Ready")["reason"] == "NotOurs"
    world.store.delete(STATEFUL_SET, NAMESPACE, NAME)
    asyncio.run(world.settle())
    assert world.condition("Ready")["status"] == "True"


def test_on_a_real_api_server_foreign_objects_outlive_the_broker(
    tmp_path: Path, real_api_server: RealApiServer
) -> None:
    """Found by reading, 1: they were replaced, and went with the Broker."""
    namespace = "foreign-objects"

    async def run() -> None:
        async with connected(real_api_server, tmp_path, namespace) as api:
            befores = [
                (kind, await api.create(in_namespace(one, namespace)))
                for kind, one in foreign_objects("postgres")
            ]
            spec = {"replicas": 2, "storage": {"size": "10Gi"}}
            await api.create(broker(namespace, spec, "postgres"))
            key = Key(kind=KeyKind.BROKER, namespace=namespace, name="postgres")
            operator = reconciler(api)
            for _ in range(3):
                await operator.reconcile(key)
            found = await api.get(BROKER, namespace, "postgres")
            assert found is not None
            (ready,) = (c for c in found["status"]["conditions"] if c["type"] == "Ready")
            assert ready["reason"] == "NotOurs"
            for kind, before in befores:
                assert f"{kind.kind} {before['metadata']['name']}" in ready["message"]
                assert await api.get(kind, namespace, before["metadata"]["name"]) == before
            await api.delete(BROKER, namespace, "postgres", propagation="Foreground")
            async with asyncio.timeout(60):
                while await api.get(ROLE, namespace, "postgres-broker") is not None:
                    await asyncio.sleep(0.1)
            for kind, before in befores:
                assert await api.get(kind, namespace, before["metadata"]["name"]) == before

    asyncio.run(run())

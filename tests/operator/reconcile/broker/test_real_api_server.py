"""A Broker on a real API server: its schema's rules, and children that stay as they were applied.

There is no kubelet and no StatefulSet controller, so no pod comes up; what the API server makes of
manifests, and what it refuses, is the real thing.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from barnabas_operator.kubernetes.api import InvalidError
from barnabas_operator.kubernetes.kinds import (
    BROKER,
    LEASE,
    PERSISTENT_VOLUME_CLAIM,
    STATEFUL_SET,
    kind_of,
)
from barnabas_operator.kubernetes.objects import is_going
from barnabas_operator.work.key import Key, KeyKind
from tests.operator.broker_manifests import COMPLETE
from tests.operator.reconcile.broker.real_cluster import (
    broker,
    connected,
    reconciler,
)
from tests.support.kstatus import kstatus
from tests.support.real_api_server import RealApiServer

EXTERNAL = {"type": "NodePort", "advertisedHost": "b{id}"}
TWO = [{"name": "data"}, {"name": "more", "size": "5Gi"}]
VOLUMES = "/var/lib/barnabas-volumes/more"
SIMPLE: dict[str, Any] = {"replicas": 3, "storage": {"size": "10Gi", "storageClassName": "fast"}}


def writes(server: RealApiServer, position: int, namespace: str) -> tuple[list[str], int]:
    """What was written in a namespace since a position of the audit log."""
    entries, end = server.writes_since(position)
    found = [
        f"{entry['verb']} {entry['requestURI']}"
        for entry in entries
        if f"/namespaces/{namespace}/" in entry["requestURI"]
    ]
    return found, end


@pytest.mark.parametrize("spec", [SIMPLE, COMPLETE["spec"]], ids=["simple", "complete"])
def test_children_are_accepted_and_not_written_again(
    spec: dict[str, Any], tmp_path: Path, real_api_server: RealApiServer
) -> None:
    """operator.md 3.9: what the API server adds by itself is no difference."""
    namespace = f"children-{len(spec)}"
    key = Key(kind=KeyKind.BROKER, namespace=namespace, name="demo")

    async def run() -> None:
        async with connected(real_api_server, tmp_path, namespace) as api:
            await api.create(broker(namespace, {**spec, "paused": False}))
            operator = reconciler(api)
            await operator.reconcile(key)
            await operator.reconcile(key)
            _, position = writes(real_api_server, 0, namespace)
            await operator.reconcile(key)
            # Another one remembers nothing of what the API server writes in another way.
            await reconciler(api).reconcile(key)
            again, _ = writes(real_api_server, position, namespace)
            assert again == []
            status = (await api.get(BROKER, namespace, "demo") or {})["status"]
            assert status["ready"] == f"0/{spec['replicas']}"

    asyncio.run(run())


@pytest.mark.parametrize(
    ("kind", "spec"), [("Broker", SIMPLE), ("Topic", {"partitions": 1}), ("ConsumerGroup", {})]
)
def test_what_the_operator_has_not_seen_yet_is_in_progress(
    kind: str, spec: dict[str, Any], tmp_path: Path, real_api_server: RealApiServer
) -> None:
    """Kstatus takes a resource without conditions for done."""
    name = f"unseen-{kind.lower()}"

    async def run() -> None:
        async with connected(real_api_server, tmp_path, name) as api:
            await api.create({**broker(name, spec), "kind": kind})
            found = await api.get(kind_of(BROKER.api_version, kind), name, "demo") or {}
            assert kstatus(found) == "InProgress"

    asyncio.run(run())


def test_larger_volumes_make_the_stateful_set_anew(
    tmp_path: Path, real_api_server: RealApiServer
) -> None:
    """Its claim template cannot change; it is deleted without its pods and comes back."""
    key = Key(kind=KeyKind.BROKER, namespace="growing", name="demo")

    async def run() -> None:
        async with connected(real_api_server, tmp_path, "growing") as api:
            await api.create(broker("growing", SIMPLE))
            operator = reconciler(api)
            await operator.reconcile(key)
            before = await api.get(STATEFUL_SET, "growing", "demo")
            size = {"spec": {"storage": {"size": "20Gi"}}}
            await api.patch(BROKER, "growing", "demo", size)
            async with asyncio.timeout(30):
                while True:
                    await operator.reconcile(key)
                    after = await api.get(STATEFUL_SET, "growing", "demo")
                    if after is not None and after["metadata"]["uid"] != before_uid(before):
                        break
            (claim,) = after["spec"]["volumeClaimTemplates"]
            assert claim["spec"]["resources"]["requests"]["storage"] == "20Gi"

    asyncio.run(run())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "more", "size": "4Gi"}, "a volume cannot shrink"),
        ({"name": "more", "size": "5Gi", "storageClassName": "slow"}, "cannot change"),
    ],
)
def test_what_cannot_change_about_one_of_several_volumes_is_refused(
    change: dict[str, Any], message: str, tmp_path: Path, real_api_server: RealApiServer
) -> None:
    """As of the one that brokers have always had; adding and taking away is the operator's."""
    name = f"volumes-{len(change)}"

    async def run() -> None:
        async with connected(real_api_server, tmp_path, name) as api:
            spec = {**SIMPLE, "storage": {**SIMPLE["storage"], "volumes": TWO}}
            await api.create(broker(name, spec))
            with pytest.raises(InvalidError, match=message):
                changed = {"storage": {"volumes": [{"name": "data"}, change]}}
                await api.patch(BROKER, name, "demo", {"spec": changed})
            for volumes in ([*TWO, {"name": "third"}], [TWO[0]], None):
                await api.patch(BROKER, name, "demo", {"spec": {"storage": {"volumes": volumes}}})

    asyncio.run(run())


def test_another_volume_makes_the_stateful_set_anew_and_is_not_written_again(
    tmp_path: Path, real_api_server: RealApiServer
) -> None:
    """What the API server makes of several claim templates is no difference."""
    key = Key(kind=KeyKind.BROKER, namespace="more-volumes", name="demo")

    async def run() -> None:
        async with connected(real_api_server, tmp_path, key.namespace) as api:
            await api.create(broker(key.namespace, SIMPLE))
            operator = reconciler(api)
            await operator.reconcile(key)
            before = await api.get(STATEFUL_SET, key.namespace, "demo")
            more = {"spec": {"storage": {"volumes": TWO}}}
            await api.patch(BROKER, key.namespace, "demo", more)
            async with asyncio.timeout(30):
                while True:
                    await operator.reconcile(key)
                    after = await api.get(STATEFUL_SET, key.namespace, "demo")
                    if after is not None and after["metadata"]["uid"] != before_uid(before):
                        break
            names = [one["metadata"]["name"] for one in after["spec"]["volumeClaimTemplates"]]
            assert names == ["data", "more"]
            await operator.reconcile(key)
            _, position = writes(real_api_server, 0, key.namespace)
            await operator.reconcile(key)
            assert writes(real_api_server, position, key.namespace)[0] == []

    asyncio.run(run())


def test_a_broker_goes_with_its_claims_and_its_lease_where_that_is_asked_for(
    tmp_path: Path, real_api_server: RealApiServer
) -> None:
    """Our finalizer holds it until then; the garbage collector is not here."""
    key = Key(kind=KeyKind.BROKER, namespace="deleted-claims", name="demo")
    storage = {**SIMPLE["storage"], "deleteClaim": "WhenDeleted"}

    async def run() -> None:
        async with connected(real_api_server, tmp_path, key.namespace) as api:
            await api.create(broker(key.namespace, {**SIMPLE, "storage": storage}))
            operator = reconciler(api)
            await operator.reconcile(key)
            await operator.reconcile(key)
            labels = {"labels": {"barnabas.dev/broker": "demo"}}
            claim = {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": "data-demo-0", "namespace": key.namespace, **labels},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "10Gi"}},
                },
            }
            await api.create(claim)
            record = {"annotations": {"barnabas.dev/arbiter-version": "1"}}
            lease = {"name": "demo-arbiter", "namespace": key.namespace, **record}
            await api.create({"apiVersion": LEASE.api_version, "kind": "Lease", "metadata": lease})
            await api.delete(BROKER, key.namespace, "demo")
            async with asyncio.timeout(60):
                while await api.get(BROKER, key.namespace, "demo") is not None:
                    await operator.reconcile(key)
                    # The API server's own finalizer goes by a controller that is not here either.
                    found = await api.get(PERSISTENT_VOLUME_CLAIM, key.namespace, "data-demo-0")
                    if found is not None and is_going(found):
                        assert await api.get(LEASE, key.namespace, "demo-arbiter") is not None
                        free = {"metadata": {"finalizers": None}}
                        await api.patch(PERSISTENT_VOLUME_CLAIM, key.namespace, "data-demo-0", free)
            assert await api.get(PERSISTENT_VOLUME_CLAIM, key.namespace, "data-demo-0") is None
            assert await api.get(LEASE, key.namespace, "demo-arbiter") is None
            assert await api.get(STATEFUL_SET, key.namespace, "demo") is None

    asyncio.run(run())


def before_uid(stateful_set: dict[str, Any] | None) -> str:
    assert stateful_set is not None
    return str(stateful_set["metadata"]["uid"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"storage": {"size": "5Gi"}}, "a volume cannot shrink"),
        ({"storage": {"storageClassName": "slow"}}, "storageClassName cannot change"),
        ({"storage": {"storageClassName": None}}, "storageClassName cannot change"),
        ({"storage": {"volumes": [{"name": "more"}]}}, "has to be among the volumes"),
        ({"storage": {"metadataVolume": "more"}}, "has to be among the volumes"),
        ({"storage": {"volumes": [*TWO, {"name": "tmp"}]}}, "are the operator's"),
        ({"storage": {"volumes": [*TWO, {"name": "more"}]}}, "Duplicate value"),
        ({"storage": {"volumes": TWO, "metadataVolume": "more"}}, "metadataVolume cannot change"),
        (
            {
                "storage": {"volumes": TWO},
                "podTemplate": {"volumes": [{"name": "more", "emptyDir": {}}]},
            },
            "cannot have the name of one of storage.volumes",
        ),
        ({"maintenance": {"park": [1], "decommission": [2, 1]}}, "cannot give its partitions"),
        ({"replicas": -1}, "greater than or equal to 0"),
        (
            {"listeners": {"external": {"type": "NodePort", "advertisedHost": "x"}}},
            "brokers have to differ",
        ),
        (
            {"listeners": {"external": EXTERNAL | {"port": 9092}}},
            "the brokers' other ports",
        ),
        ({"podTemplate": {"containers": [{"name": "proxy"}]}}, "a container needs an image"),
        *(
            (
                {"podTemplate": {"containers": [{"name": "broker", field: value}]}},
                "only env, envFrom, volumeMounts and securityContext",
            )
            for field, value in {
                "image": "x",
                "command": ["x"],
                "args": ["x"],
                "ports": [{"containerPort": 1}],
                "resources": {},
                "livenessProbe": {},
                "lifecycle": {},
            }.items()
        ),
        (
            {
                "podTemplate": {
                    "containers": [{"name": "broker", "env": [{"name": "NODE_ID", "value": "7"}]}]
                }
            },
            "set by the operator",
        ),
        *(
            (
                {
                    "podTemplate": {
                        "containers": [
                            {"name": "broker", "volumeMounts": [{"name": "x", "mountPath": path}]}
                        ]
                    }
                },
                "nothing may be mounted",
            )
            for path in (
                "/",
                "/var/lib",
                "/var/lib/barnabas",
                "/var/lib/barnabas/x",
                VOLUMES,
                "/tmp/",
            )
        ),
        ({"podTemplate": {"initContainers": [{"name": "broker", "image": "x"}]}}, "named broker"),
        ({"podTemplate": {"volumes": [{"name": "data", "emptyDir": {}}]}}, "are the operator's"),
    ],
)
def test_changes_that_cannot_be_made_are_refused(
    change: dict[str, Any], message: str, tmp_path: Path, real_api_server: RealApiServer
) -> None:
    """operator.md 5: by the API server itself, also while no operator runs."""

    async def run() -> None:
        async with connected(real_api_server, tmp_path, name) as api:
            await api.create(broker(name, SIMPLE))
            with pytest.raises(InvalidError, match=message):
                await api.patch(BROKER, name, "demo", {"spec": change})
            await api.patch(BROKER, name, "demo", {"spec": {"storage": {"size": "10.5Gi"}}})

    name = f"rules-{abs(hash(message + str(change))) % 10**8}"
    asyncio.run(run())


@pytest.mark.parametrize(
    ("size", "message"),
    [
        ("0.7Gi", "whole number of bytes"),
        ("10.3Gi", "whole number of bytes"),
        ("99999999Pi", "1Ei at most"),
        ("0", "more than 0 bytes"),
    ],
)
def test_sizes_that_no_volume_can_have_are_refused(
    size: str, message: str, tmp_path: Path, real_api_server: RealApiServer
) -> None:
    """The API server keeps them in a spelling that differs from what was declared, for ever."""
    name = f"sizes-{size.lower().replace('.', '-')}"

    async def run() -> None:
        async with connected(real_api_server, tmp_path, name) as api:
            for storage in ({"size": size}, {"volumes": [{"name": "data", "size": size}]}):
                with pytest.raises(InvalidError, match=message):
                    await api.create(broker(name, {"storage": storage}))

    asyncio.run(run())


@pytest.mark.parametrize("size", ["1.5Ti", "0.5Gi", "1000", "1Pi", "12.5M"])
def test_a_size_in_any_spelling_leads_to_one_stateful_set(
    size: str, tmp_path: Path, real_api_server: RealApiServer
) -> None:
    """It was made again with each other pass where the spelling was not understood."""
    name = f"spelt-{size.lower().replace('.', '-')}"
    key = Key(kind=KeyKind.BROKER, namespace=name, name="demo")

    async def run() -> None:
        async with connected(real_api_server, tmp_path, name) as api:
            await api.create(broker(name, {"storage": {"size": size}}))
            operator = reconciler(api)
            await operator.reconcile(key)
            made = await api.get(STATEFUL_SET, name, "demo")
            await operator.reconcile(key)
            found = await api.get(STATEFUL_SET, name, "demo")
            assert made is not None
            assert found is not None
            assert found["metadata"]["uid"] == made["metadata"]["uid"]
            assert not is_going(found)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"podTemplate": {"annotations": {"barnabas.dev/restart": "x"}}}, "on pods themselves"),
        ({"podTemplate": {"labels": {"apps.kubernetes.io/pod-index": "0"}}}, "on pods themselves"),
    ],
)
def test_marks_of_the_operator_and_of_the_statefulset_are_refused(
    spec: dict[str, Any], message: str, tmp_path: Path, real_api_server: RealApiServer
) -> None:
    """Restarts for ever, another id for a broker."""
    name = f"marks-{abs(hash(str(spec))) % 10**8}"

    async def run() -> None:
        async with connected(real_api_server, tmp_path, name) as api:
            with pytest.raises(InvalidError, match=message):
                await api.create(broker(name, spec))

    asyncio.run(run())


def test_a_broker_whose_id_went_by_a_scale_in_does_not_lock_the_spec(
    tmp_path: Path, real_api_server: RealApiServer
) -> None:
    """By reading: ids of brokers that there are not are refused, but only when they are new."""

    async def run() -> None:
        async with connected(real_api_server, tmp_path, "ids") as api:
            await api.create(broker("ids", {**SIMPLE, "replicas": 4}))
            await api.patch(BROKER, "ids", "demo", {"spec": {"maintenance": {"park": [3]}}})
            await api.patch(BROKER, "ids", "demo", {"spec": {"replicas": 3}})
            await api.patch(BROKER, "ids", "demo", {"spec": {"config": {"num.io.threads": 9}}})
            with pytest.raises(InvalidError, match="park names a broker"):
                await api.patch(BROKER, "ids", "demo", {"spec": {"maintenance": {"park": [3, 4]}}})
            await api.patch(BROKER, "ids", "demo", {"spec": {"maintenance": None}})
            with pytest.raises(InvalidError, match="decommission names a broker"):
                maintenance = {"decommission": [7]}
                await api.patch(BROKER, "ids", "demo", {"spec": {"maintenance": maintenance}})
            emptied = {"replicas": 5, "maintenance": {"decommission": [4]}}
            await api.patch(BROKER, "ids", "demo", {"spec": emptied})
            await api.patch(BROKER, "ids", "demo", {"spec": {"replicas": 0}})

    asyncio.run(run())


@pytest.mark.parametrize("name", ["1demo", "demo.x", "d" * 41])
def test_names_that_services_cannot_have_are_refused(
    name: str, tmp_path: Path, real_api_server: RealApiServer
) -> None:
    """Services and pods are named after it."""
    namespace = f"names-{len(name)}"

    async def run() -> None:
        async with connected(real_api_server, tmp_path, namespace) as api:
            with pytest.raises(InvalidError):
                await api.create(broker(namespace, SIMPLE, name))

    asyncio.run(run())

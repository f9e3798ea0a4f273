"""Brokers that stand for brokers run elsewhere: nobody gets so at a cluster of somebody else."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.env import SystemClock
from barnabas_operator.admin_pool import AdminPool
from barnabas_operator.kubernetes.kinds import BROKER, CONSUMER_GROUP, NAMESPACE, TOPIC, Kind
from barnabas_operator.reconcile.broker.broker_reconciler import BrokerReconciler
from barnabas_operator.reconcile.elsewhere import Elsewhere, NotAdmittedError
from barnabas_operator.reconcile.group.group_reconciler import GroupReconciler
from barnabas_operator.reconcile.topic_reconciler import TopicReconciler
from barnabas_operator.settings import OperatorSettings
from barnabas_operator.work.key import Key, KeyKind
from barnabas_operator.work.watch_cache import WatchCache
from tests.support.in_process_broker import running_broker
from tests.support.operator_world import bootstrap_of
from tests.support.store_api import StoreApi

SECRET = "payments"


def broker(
    namespace: str, *, servers: str = "", allowed: str = "", cluster_id: str = "", age: str = "1"
) -> dict[str, Any]:
    """A Broker; without servers the operator runs its brokers."""
    annotations = {"bootstrap-servers": servers, "allowed-namespaces": allowed}
    return {
        "apiVersion": BROKER.api_version,
        "kind": BROKER.kind,
        "metadata": {
            "namespace": namespace,
            "name": "main",
            "uid": f"uid-{namespace}",
            "creationTimestamp": f"2026-01-0{age}T00:00:00Z",
            "annotations": {f"barnabas.dev/{key}": one for key, one in annotations.items() if one},
        },
        "spec": {},
        "status": {"clusterId": cluster_id} if cluster_id else {},
    }


@pytest.mark.parametrize(
    ("first", "is_refused"),
    [
        ({"cluster_id": "c1", "age": "9"}, True),
        ({"cluster_id": "c1", "allowed": "bank, shop"}, False),
        ({"cluster_id": "c1", "allowed": "*"}, False),
        ({"cluster_id": "c2"}, False),
        ({"cluster_id": "c1", "servers": "b:9092", "age": "1"}, True),
        ({"cluster_id": "c1", "servers": "b:9092", "age": "9"}, False),
    ],
)
def test_the_first_broker_of_a_cluster_says_who_else_may_have_it(
    first: dict[str, Any], is_refused: bool
) -> None:
    """One whose brokers the operator runs comes first, then the oldest."""
    ours = broker("shop", servers="b:9092", age="5")
    elsewhere = Elsewhere(lambda: [broker("victim", **first), ours])
    if is_refused:
        with pytest.raises(NotAdmittedError, match="which takes nothing from the namespace shop"):
            elsewhere.check_cluster(ours, "c1")
    else:
        elsewhere.check_cluster(ours, "c1")


def test_brokers_that_the_operator_runs_are_never_refused() -> None:
    """A Broker that was restored from copies of volumes says the same of its cluster."""
    others = [broker("other", cluster_id="c1", age="1")]
    Elsewhere(lambda: others, ()).check_cluster(broker("shop", age="5"), "c1")
    Elsewhere(lambda: others, ()).check_namespace(broker("shop"))


def test_the_operator_may_take_addresses_from_some_namespaces_only() -> None:
    elsewhere = Elsewhere(namespaces=("platform",))
    elsewhere.check_namespace(broker("platform", servers="b:9092"))
    with pytest.raises(NotAdmittedError, match="takes no addresses from Brokers"):
        elsewhere.check_namespace(broker("shop", servers="b:9092"))


class World:
    """Two namespaces: `victim` has a Broker of a real cluster, `evil` one that names its address.

    The store has no Broker run here that could serve, so its status says whose cluster it is.
    """

    def __init__(self, cluster: Any, cluster_id: str, **settings: Any) -> None:
        self.api = StoreApi()
        for namespace in ("victim", "evil"):
            self.api.store.create(NAMESPACE, "", {"metadata": {"name": namespace}})
        self.put(broker("victim"))
        self.api.store.update(
            BROKER,
            "victim",
            "main",
            lambda old: {**old, "status": {"clusterId": cluster_id}},
            is_status=True,
        )
        self.put(broker("evil", servers=bootstrap_of(cluster), age="5"))
        clock = SystemClock()
        self.pool = AdminPool(self.api, clock)
        cache = WatchCache(self.api, asyncio.get_running_loop().time, list_seconds=0)
        shared = self.api, self.pool, OperatorSettings(**settings), clock
        self.reconcilers: dict[KeyKind, Any] = {
            KeyKind.TOPICS: TopicReconciler(*shared, cache),
            KeyKind.GROUPS: GroupReconciler(*shared, cache),
            KeyKind.BROKER: BrokerReconciler(
                *shared,
                elsewhere=Elsewhere(cache.all_brokers, shared[2].elsewhere_namespaces),
            ),
        }

    def put(self, manifest: dict[str, Any]) -> None:
        manifest["metadata"].pop("uid", None)  # the server gives them
        kind = {one.kind: one for one in (BROKER, TOPIC, CONSUMER_GROUP)}[manifest["kind"]]
        self.api.store.create(kind, manifest["metadata"]["namespace"], manifest)

    def declare(self, kind: Kind, spec: dict[str, Any]) -> None:
        metadata = {
            "namespace": "evil",
            "name": SECRET,
            "annotations": {"barnabas.dev/adopt": "true"},
        }
        self.put(
            {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}
        )

    async def reconcile(self, work: KeyKind) -> None:
        await self.reconcilers[work].reconcile(Key(kind=work, namespace="evil", name="main"))

    def reason(self, kind: Kind, name: str) -> str:
        status = self.api.store.get(kind, "evil", name)["status"]
        (found,) = (one["reason"] for one in status["conditions"] if one["type"] == "Stalled")
        return str(found)


@pytest.mark.parametrize("namespaces", [("*",), ("victim",)])
def test_a_broker_of_ones_own_at_the_address_of_another_deletes_and_resets_nothing_there(
    tmp_path: Path, namespaces: tuple[str, ...]
) -> None:
    """It got round `allowed-namespaces`: anybody could have any topic of any cluster deleted."""

    async def run() -> None:
        async with (
            running_broker(tmp_path / "data") as cluster,
            Admin(bootstrap_of(cluster)) as admin,
        ):
            await admin.topics.create([NewTopic(name=SECRET, partition_count=1)])
            cluster_id = (await admin.cluster.describe()).cluster_id or ""
            world = World(cluster, cluster_id, elsewhere_namespaces=namespaces)
            world.declare(TOPIC, {"deletionPolicy": "Delete"})
            reset = {"id": "r", "to": "latest", "topics": [{"name": SECRET}]}
            world.declare(CONSUMER_GROUP, {"reset": reset})
            for work in world.reconcilers:
                await world.reconcile(work)
            for kind, name in ((TOPIC, SECRET), (CONSUMER_GROUP, SECRET), (BROKER, "main")):
                assert world.reason(kind, name) == "ClusterNotAdmitted"
            assert "clusterId" not in world.api.store.get(BROKER, "evil", "main")["status"]
            world.api.store.delete(TOPIC, "evil", SECRET)
            await world.reconcile(KeyKind.TOPICS)
            assert ("evil", SECRET) not in world.api.store.objects[TOPIC]
            assert SECRET in [one.name for one in await admin.topics.list()]
            listed = await admin.group_offsets.list([SECRET])
            assert not listed.successes.get(SECRET)
            await world.pool.close()

    asyncio.run(run())

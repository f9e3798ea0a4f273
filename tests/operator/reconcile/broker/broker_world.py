"""A cluster of brokers in memory for the reconciler: StatefulSet controller, kubelet, metadata.

    world = BrokerWorld(replicas=3)
    world.change({"spec": {"config": {"num.io.threads": 9}}})
    await world.settle()              # reconcile and let time pass until nothing changes
    world.restarted                   # node ids in the order in which their pods were deleted

`check` runs after each tick and holds what must never happen: two brokers down for the operator's
sake, or a partition below its min.insync.replicas that has replicas to spare.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from barnabas_client.errors import BrokerUnreachableError, UsageError
from barnabas_operator.kubernetes.api import KubernetesApi
from barnabas_operator.kubernetes.kinds import (
    BROKER,
    CONFIG_MAP,
    NODE,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    SECRET,
    STATEFUL_SET,
    kind_of,
)
from barnabas_operator.kubernetes.kinds import NAMESPACE as NAMESPACE_KIND
from barnabas_operator.reconcile.broker.broker_reconciler import BrokerReconciler
from barnabas_operator.reconcile.broker.cluster_state import (
    BrokerSettings,
    ClusterView,
    MetadataMembers,
    RegisteredBroker,
)
from barnabas_operator.reconcile.broker.observed import (
    ProcessView,
)
from barnabas_operator.settings import OperatorSettings
from barnabas_operator.work.key import Key, KeyKind
from barnabas_protocol.ids import TopicPartition
from tests.operator.reconcile.broker.secure_brokers import check_brokers_talk, reported_tls
from tests.operator.reconcile.broker.store_api import Killed, StoreApi
from tests.operator.reconcile.broker.world_parts import (
    CATCH_UP_TICKS,
    Partition,
    is_ready_pod,
    view_of,
)
from tests.support.fake_kubernetes_store import FakeStore, Manifest, merge_patched
from tests.support.simulated_clock import HandClock

NAMESPACE = "kafka"
NAME = "demo"
KEY = Key(kind=KeyKind.BROKER, namespace=NAMESPACE, name=NAME)
GRACE_FINALIZER = "test/grace"
STOP_TICKS = 2
START_TICKS = 2
SETTLE_TICKS_MAX = 400
BROKEN_IMAGE = "broken"


class BrokerWorld:
    """One Broker and all that Kubernetes and Kafka make of it."""

    def __init__(
        self,
        replicas: int = 3,
        *,
        store: FakeStore | None = None,
        way: KubernetesApi | None = None,
        **spec: Any,
    ) -> None:
        """With a `way` the operator's requests go over it; it has to lead to the store."""
        self.store = store or FakeStore()
        self.api = StoreApi(self.store)
        self._way = way or self.api
        self.clock = HandClock()
        self.partitions: list[Partition] = []
        self.controller: int | None = None
        self.overrides: dict[str, str] = {}
        self.full_disks: dict[int, tuple[str, ...]] = {}
        self.on_volumes: dict[int, dict[str, int]] = {}  # logs by broker and volume
        self.racks: dict[int, str | None] = {}
        self.plain_connections: int | None = 0
        self.secure_connections: int | None = 0
        self.loaded: dict[int, Manifest] = {}  # the certificates of each broker
        self.loads_certificates = True
        self.registered: set[int] = set()
        self.factors: dict[int, str] = {}  # what brokers started with
        self.members: set[int] = set()  # of the metadata log
        self.leaving: set[int] = set()
        self.held_down: set[int] = set()  # whose pods do not start
        self.refused_settings = ""
        self.restarted: list[int] = []
        self.is_reachable = True
        self.is_available = True  # whether `check` wants it so
        self._ages: dict[str, int] = {}
        self._stopping: dict[str, int] = {}
        self._served: set[str] = set()
        self.store.create(NAMESPACE_KIND, "", {"metadata": {"name": NAMESPACE}})
        for number in range(6):
            self.add_node(f"node{number}", f"zone{number % 3}")
        manifest = {
            "apiVersion": BROKER.api_version,
            "kind": "Broker",
            "metadata": {"name": NAME, "namespace": NAMESPACE},
            "spec": {"replicas": replicas, "storage": {"size": "10Gi"}, **spec},
        }
        self.store.create(BROKER, NAMESPACE, manifest)
        self.start_operator()

    def start_operator(self, **settings: Any) -> None:
        """Another operator process: nothing but the API server remembers."""
        self.api.writes_left = None
        self.reconciler = BrokerReconciler(
            self._way,
            self,
            OperatorSettings(broker_image="good:1", **settings),
            self.clock,
            clusters=self,
            processes=self,
        )

    # What tests ask and do.

    @property
    def broker(self) -> Manifest:
        return self.store.get(BROKER, NAMESPACE, NAME)

    @property
    def status(self) -> Manifest:
        found: Manifest = self.broker.get("status") or {}
        return found

    def condition(self, type_: str) -> Manifest:
        found = [one for one in self.status.get("conditions", ()) if one["type"] == type_]
        return found[0] if found else {}

    def now(self) -> datetime:
        """The time of the operator."""
        return datetime.fromtimestamp(self.clock.wall_ms() / 1000, UTC)

    def change(self, patch: Manifest) -> None:
        """Merge a patch into the Broker as a user would."""
        self.store.update(BROKER, NAMESPACE, NAME, lambda old: merge_patched(old, patch))

    def annotate(self, name: str, value: str) -> None:
        self.change({"metadata": {"annotations": {f"barnabas.dev/{name}": value}}})

    def add_node(self, name: str, zone: str) -> None:
        labels = {"topology.kubernetes.io/zone": zone, "kubernetes.io/hostname": name}
        self.store.create(NODE, "", {"metadata": {"name": name, "labels": labels}})

    def put(self, manifest: Manifest) -> None:
        """Create an object of the cluster."""
        kind = kind_of(manifest["apiVersion"], manifest["kind"])
        self.store.create(kind, "", manifest)

    def add_topic(self, name: str, *replicas: Sequence[int], in_sync_min: int = 2) -> None:
        for number, brokers in enumerate(replicas):
            self.partitions.append(
                Partition(
                    topic_partition=TopicPartition(name, number),
                    replicas=list(brokers),
                    in_sync=set(brokers),
                    in_sync_min=in_sync_min,
                )
            )

    def hold_down(self, node_id: int) -> None:
        """Lose a pod, and let the next one not start."""
        self.held_down.add(node_id)
        self.store.delete(POD, NAMESPACE, f"{NAME}-{node_id}")

    def pods(self) -> dict[int, Manifest]:
        found = self.store.list(POD, NAMESPACE, lambda one: True)
        return {int(one["metadata"]["name"].rpartition("-")[2]): one for one in found}

    def claims(self) -> list[Manifest]:
        return self.store.list(PERSISTENT_VOLUME_CLAIM, NAMESPACE, lambda one: True)

    def ready_ids(self) -> set[int]:
        return {node_id for node_id, pod in self.pods().items() if is_ready_pod(pod)}

    async def reconcile(self) -> float | None:
        return await self.reconciler.reconcile(KEY)

    async def settle(self, *, ticks_max: int = SETTLE_TICKS_MAX) -> None:
        """Reconcile and let time pass until nothing changes any more."""
        quiet = 0
        for _ in range(ticks_max):
            version = self.store.version
            await self.reconcile()
            self.tick()
            quiet = quiet + 1 if self.store.version == version else 0
            if quiet > STOP_TICKS + START_TICKS + CATCH_UP_TICKS + 2:
                return
        raise AssertionError(f"not settled: {json.dumps(self.status, indent=1)}")

    async def walk_until_killed(self, writes: int, *, is_done_first: bool) -> bool:
        """Let the operator live for so many writes; returns whether it came to its death."""
        self.api.writes_left, self.api.is_done_before_death = writes, is_done_first
        quiet = 0
        try:
            while quiet < 12:
                version = self.store.version
                await self.reconcile()
                self.tick()
                quiet = quiet + 1 if self.store.version == version else 0
        except Killed:
            self.start_operator()
            return True
        self.start_operator()
        return False

    def tick(self) -> None:
        """Let one unit of time pass everywhere, then check."""
        self.clock.now_ms += 1000
        self._run_stateful_set()
        self._run_volumes()
        self._run_kubelets()
        self._run_brokers()
        self._run_certificates()
        self.check()

    def check(self) -> None:
        """What must hold at any time."""
        ready = self.ready_ids()
        check_brokers_talk({one: pod for one, pod in self.pods().items() if one in ready})
        if not self.is_available:
            return
        stopping = [
            node_id
            for node_id, pod in self.pods().items()
            if pod["metadata"].get("deletionTimestamp") and pod["metadata"]["uid"] in self._served
        ]
        assert len(stopping) <= 1, f"{stopping} are down at once"
        for one in self.partitions:
            if len(one.replicas) > one.in_sync_min and one.target is None:
                assert len(one.in_sync) >= one.in_sync_min, f"{one} in {self.status.get('plan')}"

    # The brokers, as the reconciler asks them.

    async def admin(self, namespace: str, name: str) -> Any:
        raise AssertionError("clusters are given")

    async def cluster(self, namespace: str, name: str) -> BrokerWorld:
        return self

    async def observe(self) -> ClusterView:
        ready = self.ready_ids()
        if not ready or not self.is_reachable:
            raise BrokerUnreachableError("nobody answers")
        return ClusterView(
            cluster_id="c1",
            controller_id=self.controller,
            brokers={
                node_id: RegisteredBroker(
                    node_id=node_id,
                    is_fenced=node_id not in ready,
                    rack=self.racks.get(node_id),
                    factors={"default.replication.factor": self.factors[node_id]},
                    is_leaving=node_id in self.leaving if node_id in ready else None,
                )
                for node_id in sorted(self.registered)
            },
            partitions=tuple(view_of(one) for one in self.partitions),
            members=self._told_members(ready),
            settings=BrokerSettings(
                known=frozenset(("num.io.threads", "log.retention.ms", "num.recovery.threads")),
                live=frozenset(("log.retention.ms", "num.io.threads")),
                defaults={"log.retention.ms": "604800000", "num.io.threads": "8"},
                overrides=dict(self.overrides),
            ),
        )

    async def statuses(
        self, addresses: Mapping[int, str], access: Any = None
    ) -> dict[int, ProcessView]:
        return {
            node_id: ProcessView(
                node_id=node_id,
                state="RUNNING",
                is_fenced=False,
                drain="running",
                size_bytes=1234,
                full_disks=self.full_disks.get(node_id, ()),
                held=self._held(node_id),
                tls=reported_tls(self.pods()[node_id], self.loaded.get(node_id, {}), node_id),
                plain_connections=self.plain_connections,
                secure_connections=self.secure_connections,
            )
            for node_id in addresses
            if node_id in self.ready_ids()
        }

    def _held(self, node_id: int) -> dict[str, int]:
        mounts = self.pods()[node_id]["spec"]["containers"][0]["volumeMounts"]
        named = {one["name"]: one["mountPath"] for one in mounts}
        found = self.on_volumes.get(node_id, {})
        return {
            f"{path}/data": found.get(name, 0)
            for name, path in named.items()
            if name not in ("config", "tmp", "tls", "externaltls")
        }

    async def move(self, moves: Mapping[TopicPartition, Sequence[int]]) -> Mapping[str, Exception]:
        for one in self.partitions:
            if one.topic_partition in moves:
                one.target = list(moves[one.topic_partition])
                one.behind = dict.fromkeys(set(one.target) - set(one.replicas), CATCH_UP_TICKS)
                one.replicas = [*one.replicas, *sorted(one.behind)]
        return {}

    async def change_settings(self, assigned: Mapping[str, str], removed: Sequence[str]) -> None:
        if self.refused_settings and "log.retention.ms" in assigned:
            raise UsageError(self.refused_settings)
        self.overrides.update(assigned)
        for key in removed:
            del self.overrides[key]

    async def set_leaving(self, node_id: int, *, is_leaving: bool) -> None:
        assert self._log_has_majority(), "nobody leads who could note it"
        (self.leaving.add if is_leaving else self.leaving.discard)(node_id)

    async def unregister(self, node_id: int) -> None:
        assert self._log_has_majority(), "nobody leads who could forget it"
        self.registered.discard(node_id)
        self.leaving.discard(node_id)

    def _told_members(self, ready: set[int]) -> MetadataMembers:
        if not self._log_has_majority():
            return MetadataMembers()
        ids = frozenset(self.members)
        return MetadataMembers(ids=ids, in_touch=ids & frozenset(ready), wanted=3)

    def _log_has_majority(self) -> bool:
        return 2 * len(self.members & self.ready_ids()) > len(self.members)

    # The machinery.

    def _run_stateful_set(self) -> None:
        found = self.store.objects[STATEFUL_SET].get((NAMESPACE, NAME))
        pods = self.pods()
        if found is None:
            return
        replicas = found["spec"]["replicas"]
        for node_id in range(replicas):
            if node_id not in pods:
                self._make_pod(found, node_id)
        for node_id, pod in pods.items():
            if node_id >= replicas and not pod["metadata"].get("deletionTimestamp"):
                self.store.delete(POD, NAMESPACE, pod["metadata"]["name"])

    def _make_pod(self, stateful_set: Manifest, node_id: int) -> None:
        template = stateful_set["spec"]["template"]
        for claim in stateful_set["spec"]["volumeClaimTemplates"]:
            claim_name = f"{claim['metadata']['name']}-{NAME}-{node_id}"
            if (NAMESPACE, claim_name) not in self.store.objects[PERSISTENT_VOLUME_CLAIM]:
                made = {
                    "metadata": {"name": claim_name, "labels": claim["metadata"]["labels"]},
                    "spec": {**claim["spec"], "storageClassName": "standard"},
                }
                self.store.create(PERSISTENT_VOLUME_CLAIM, NAMESPACE, made)
        self.store.create(
            POD,
            NAMESPACE,
            {
                "metadata": {
                    "name": f"{NAME}-{node_id}",
                    "labels": template["metadata"]["labels"],
                    "annotations": template["metadata"]["annotations"],
                    "finalizers": [GRACE_FINALIZER],
                },
                "spec": template["spec"],
            },
        )

    def _run_volumes(self) -> None:
        """Volumes are there, and grow, at once."""
        for claim in self.claims():
            bound = {"phase": "Bound", "capacity": claim["spec"]["resources"]["requests"]}
            self.store.update(
                PERSISTENT_VOLUME_CLAIM,
                NAMESPACE,
                claim["metadata"]["name"],
                lambda old, bound=bound: {**old, "status": bound},
                is_status=True,
            )

    def _run_kubelets(self) -> None:
        for node_id, pod in self.pods().items():
            uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
            if pod["metadata"].get("deletionTimestamp"):
                self._stopping[uid] = self._stopping.get(uid, 0) + 1
                if self._stopping[uid] == 1:
                    self.restarted.append(node_id)
                    self._set_ready(name, node_id, is_ready=False)
                if self._stopping[uid] > STOP_TICKS:
                    self.store.update(
                        POD,
                        NAMESPACE,
                        name,
                        lambda old: merge_patched(old, {"metadata": {"finalizers": None}}),
                    )
                continue
            if pod["spec"].get("schedulingGates") or node_id in self.held_down:
                continue
            self._ages[uid] = self._ages.get(uid, 0) + 1
            self._start(pod, node_id, self._ages[uid])

    def _start(self, pod: Manifest, node_id: int, age: int) -> None:
        name = pod["metadata"]["name"]
        if age == 1:
            node = {"spec": {"nodeName": f"node{node_id}"}}
            self.store.update(POD, NAMESPACE, name, lambda old: merge_patched(old, node))
        image = pod["spec"]["containers"][0]["image"]
        if image == BROKEN_IMAGE:
            waiting = {"state": {"waiting": {"reason": "ImagePullBackOff"}}}
            self._set_status(name, {"containerStatuses": [waiting]})
        elif age == START_TICKS:
            self._set_ready(name, node_id, is_ready=True)
            self._served.add(pod["metadata"]["uid"])
            self.registered.add(node_id)
            data = self._files()
            own = data.get(f"broker-{node_id}.properties", data["broker.properties"])
            key = "default.replication.factor="
            (self.factors[node_id],) = (
                line.removeprefix(key) for line in own.splitlines() if line.startswith(key)
            )
            racks = [line[12:] for line in own.splitlines() if line.startswith("broker.rack=")]
            self.racks[node_id] = racks[0] if racks else None

    def _files(self) -> dict[str, str]:
        found: dict[str, str] = self.store.get(CONFIG_MAP, NAMESPACE, f"{NAME}-config")["data"]
        return found

    def _set_ready(self, name: str, node_id: int, *, is_ready: bool) -> None:
        condition = {"type": "Ready", "status": "True" if is_ready else "False"}
        self._set_status(name, {"conditions": [condition], "podIP": f"10.0.0.{node_id}"})

    def _set_status(self, name: str, status: Manifest) -> None:
        self.store.update(
            POD, NAMESPACE, name, lambda old: {**old, "status": status}, is_status=True
        )

    def _run_members(self, ready: set[int]) -> None:
        """One change at a time, decided by a majority of the members that there are."""
        if not self.members:
            self.members = set(sorted(ready)[:1])
        if not self._log_has_majority():
            self.controller = None
            return
        if self.controller not in self.members & ready - self.leaving:
            self.controller = min(self.members & ready - self.leaving, default=None)
        going = self.members & (self.leaving | (self.members - self.registered))
        coming = ready & self.registered - self.members - self.leaving
        for node_id in sorted(going):
            rest = self.members - {node_id}
            if 2 * len(rest & ready) > len(rest):
                self.members = rest
                return
        if coming and len(self.members) < 3:
            self.members.add(min(coming))

    def _run_certificates(self) -> None:
        """A broker loads what its pod mounts: as it starts, and one broker per tick later on."""
        found = self.store.objects[SECRET].get((NAMESPACE, f"{NAME}-broker-certificates"))
        if found is None:
            return
        behind = [one for one in sorted(self.pods()) if self.loaded.get(one) != found["data"]]
        for node_id in behind[:1] if self.loads_certificates else ():
            self.loaded[node_id] = found["data"]

    def _run_brokers(self) -> None:
        ready = self.ready_ids()
        self._run_members(ready)
        for one in self.partitions:
            for node_id in one.replicas:
                if node_id not in ready:
                    one.behind[node_id] = CATCH_UP_TICKS
                    if len(one.in_sync) > 1:
                        one.in_sync.discard(node_id)
                elif node_id not in one.in_sync and node_id not in one.slow:
                    one.behind[node_id] = one.behind.get(node_id, CATCH_UP_TICKS) - 1
                    if one.behind[node_id] <= 0:
                        one.in_sync.add(node_id)
            if one.target is not None and set(one.target) <= one.in_sync:
                one.replicas, one.target = one.target, None
                one.in_sync &= set(one.replicas)


def settled(replicas: int = 3, **spec: Any) -> BrokerWorld:
    """A world whose brokers are up, with topics that have a replica everywhere."""
    world = BrokerWorld(replicas, **spec)
    asyncio.run(world.settle())
    if replicas >= 3:
        world.add_topic("orders", [0, 1, 2], [1, 2, 0], [2, 0, 1])
    asyncio.run(world.settle())
    world.restarted.clear()
    world.api.writes.clear()
    return world

"""What Kubernetes makes of the operator's objects: StatefulSet controller, scheduler, kubelets.

Volumes are disks of nodes, so a pod comes back where its data is. A container starts when its image
can be had, all files that its pod mounts are there, and its node runs; whether it ever serves is up
to the image. Not here: what brokers do then (`brokers.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas_operator.kubernetes.kinds import (
    CONFIG_MAP,
    LEASE,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_DISRUPTION_BUDGET,
    STATEFUL_SET,
    Kind,
)
from barnabas_operator.reconcile.broker import names
from barnabas_operator.reconcile.broker.pod_reading import HOST_NAME_LABEL
from barnabas_operator.reconcile.broker.properties import SHARED_FILE, own_file
from tests.operator.reconcile.broker.world_parts import is_ready_pod
from tests.simulation.operator.brokers import Brokers
from tests.support.fake_kubernetes_store import Event, FakeStore, Manifest, Refused, merge_patched
from tests.support.simulated_random import SimulatedRandom

NAMESPACE = "kafka"
NAME = "demo"
GRACE_FINALIZER = "test/grace"
NODES = 6
MISSING_IMAGE, HANGING_IMAGE, CRASHING_IMAGE = "missing:1", "hangs:1", "crashes:1"
TOO_MUCH_MEMORY = "900Gi"
FOREIGN_LABELS = {"app": "of-somebody-else"}
CRASH_LOOP_SECONDS = 8
NOT_READY_SECONDS = 40
PROXY_SECONDS = 25  # between two starts of a container that crashes
PROXY_RUNS_SECONDS = 3


class Kubernetes:
    """The machinery of one namespace; `tick` lets a second pass."""

    def __init__(
        self,
        store: FakeStore,
        brokers: Brokers,
        random: SimulatedRandom,
        tell: Callable[[str], None],
    ) -> None:
        self.store = store
        self.brokers = brokers
        self._random = random
        self._tell = tell
        self.down: dict[str, int] = {}  # nodes that are off, and for how many seconds still
        self.cordoned: set[str] = set()
        self.keeps_orphans = False  # of a StatefulSet that was deleted without its pods
        self.injected_secrets: tuple[str, ...] = ()  # by a webhook, into every pod
        self.has_controllers = True  # whether StatefulSets are looked after
        self.has_room = True  # for pods that have no volume on any node yet
        self.are_proxies_down = False  # the containers beside brokers, if there are any
        self._ages: dict[str, int] = {}  # of the containers of pods, since they run
        self._running: dict[int, str] = {}  # brokers' processes, by the pods that they are in
        self._stopping: dict[str, int] = {}
        self._seconds = 0
        self._proxies_started: dict[str, str] = {}  # by pod, of those that have crashed, when again
        self._uids: set[str] = set()  # of all objects there are
        self._ownerless: list[tuple[Kind, str, str]] = []
        store.listeners.append(self._heard)
        for number in range(NODES):
            name = f"node{number}"
            # As at some providers, the host name is not the name of the Node.
            labels = {
                "topology.kubernetes.io/zone": f"zone{number % 3}",
                HOST_NAME_LABEL: _host_name(name),
            }
            store.create(NODE, "", {"metadata": {"name": name, "labels": labels}})

    # ------------------------------------------------------------------ what is so

    def pods(self) -> dict[int, Manifest]:
        found = self.store.objects[POD].values()
        return {int(one["metadata"]["name"].rpartition("-")[2]): one for one in found}

    def find(self, kind: Kind, name: str) -> Manifest | None:
        found = self.store.objects[kind].get((NAMESPACE if kind.is_namespaced else "", name))
        return None if found is not None and is_foreign(found) else found

    def note_record(self) -> None:
        """Make the Lease that is the brokers' arbiter."""
        annotations = {"barnabas.dev/arbiter-version": "1"}
        lease = {"metadata": {"name": names.arbiter_lease(NAME), "annotations": annotations}}
        self.store.create(LEASE, NAMESPACE, lease)

    def _heard(self, event: Event) -> None:
        _, kind, type_, manifest = event
        metadata = manifest["metadata"]
        if type_ != "DELETED":
            self._uids.add(metadata["uid"])
            owners = metadata.get("ownerReferences") or ()
            if owners and not any(owner["uid"] in self._uids for owner in owners):
                self._ownerless.append((kind, metadata["namespace"], metadata["name"]))
            return
        self._uids.discard(metadata["uid"])
        if kind is PERSISTENT_VOLUME_CLAIM:
            self.brokers.lose_disk(manifest["metadata"]["uid"])
        elif kind is LEASE:
            self.brokers.forget()

    def is_ready(self, node_id: int) -> bool:
        pod = self.pods().get(node_id)
        return pod is not None and is_ready_pod(pod)

    # ------------------------------------------------------------------ what users do to it

    def reboot(self, node: str, seconds: int) -> None:
        """A node goes off, with all that runs on it, and comes back."""
        self.down[node] = seconds
        if seconds > NOT_READY_SECONDS:
            self._set_node_ready(node, is_ready=False)
        for node_id, pod in self.pods().items():
            if pod["spec"].get("nodeName") == node:
                self._end(node_id, pod)

    def _set_node_ready(self, node: str, *, is_ready: bool) -> None:
        conditions = [{"type": "Ready", "status": "True" if is_ready else "Unknown"}]
        status = {"status": {"conditions": conditions}}
        self.store.update(NODE, "", node, lambda old: merge_patched(old, status))

    def evict(self, node_id: int) -> bool:
        """Ask for an eviction; returns whether the disruption budget let it pass."""
        budget = self.find(POD_DISRUPTION_BUDGET, NAME)
        pods = self.pods()
        if node_id not in pods or budget is None:
            return False
        found = self.find(STATEFUL_SET, NAME)
        expected = len(pods) if found is None else found["spec"]["replicas"]
        ready = sum(self.is_ready(one) for one in pods)
        if ready - 1 < expected - budget["spec"]["maxUnavailable"]:
            return False
        self.delete_pod(node_id)
        return True

    def delete_pod(self, node_id: int) -> None:
        if node_id in self.pods():
            self.store.delete(POD, NAMESPACE, names.pod(NAME, node_id))

    # ------------------------------------------------------------------ time

    def tick(self) -> None:
        """Let a second pass."""
        self._seconds += 1
        for node in list(self.down):
            self.down[node] -= 1
            if self.down[node] <= 0:
                del self.down[node]
                self._set_node_ready(node, is_ready=True)
        if self.has_controllers and self._random.integer(5):
            self._collect_garbage()
            self._run_stateful_set()
        for node_id, pod in sorted(self.pods().items()):
            self._run_pod(node_id, pod)
        for node_id in set(self._running) - set(self.pods()):
            del self._running[node_id]
            self.brokers.stop(node_id)
        self._probe()

    def _run_stateful_set(self) -> None:
        found = self.find(STATEFUL_SET, NAME)
        pods = self.pods()
        if found is None:
            if not self.keeps_orphans:
                self._collect_orphans(pods)
            return
        self.keeps_orphans = False
        replicas = found["spec"]["replicas"]
        for node_id in range(replicas):
            if node_id not in pods:
                self._make_pod(found, node_id)
            elif not pods[node_id]["spec"].get("nodeName"):
                self._make_claims(found, node_id)
        for node_id, pod in pods.items():
            if node_id >= replicas and not pod["metadata"].get("deletionTimestamp"):
                self.store.delete(POD, NAMESPACE, pod["metadata"]["name"])

    def _collect_garbage(self) -> None:
        """What was made for an owner that had gone already goes, too."""
        for kind, namespace, name in self._ownerless:
            found = self.store.objects[kind].get((namespace, name))
            owners = () if found is None else found["metadata"].get("ownerReferences") or ()
            if owners and not any(owner["uid"] in self._uids for owner in owners):
                self._tell(f"{kind.kind} {name} is collected: its owner has gone")
                self.store.delete(kind, namespace, name)
        self._ownerless.clear()

    def _collect_orphans(self, pods: dict[int, Manifest]) -> None:
        """Pods go with the StatefulSet that owned them."""
        for pod in pods.values():
            if not pod["metadata"].get("deletionTimestamp"):
                self.store.delete(POD, NAMESPACE, pod["metadata"]["name"])

    def _make_pod(self, stateful_set: Manifest, node_id: int) -> None:
        template = stateful_set["spec"]["template"]
        self._make_claims(stateful_set, node_id)
        metadata = template["metadata"]
        pod = {
            "metadata": {
                "name": names.pod(NAME, node_id),
                "labels": metadata["labels"],
                "annotations": metadata["annotations"],
                "finalizers": [GRACE_FINALIZER],
            },
            "spec": template["spec"],
        }
        if self.injected_secrets:
            secrets = [*template["spec"].get("imagePullSecrets", ())]
            secrets += [{"name": name} for name in self.injected_secrets]
            pod["spec"] = {**template["spec"], "imagePullSecrets": secrets}
        self.store.create(POD, NAMESPACE, pod)

    def _make_claims(self, stateful_set: Manifest, node_id: int) -> None:
        for claim in stateful_set["spec"]["volumeClaimTemplates"]:
            name = names.claim(NAME, node_id, claim["metadata"]["name"])
            if self.find(PERSISTENT_VOLUME_CLAIM, name) is None:
                made = {
                    "metadata": {"name": name, "labels": claim["metadata"]["labels"]},
                    "spec": {**claim["spec"], "storageClassName": "standard"},
                }
                self.store.create(PERSISTENT_VOLUME_CLAIM, NAMESPACE, made)

    def _claims(self, node_id: int, pod: Manifest) -> dict[str, Manifest | None]:
        """The claims of a pod by volume; the one with the metadata log is the first."""
        mounts = pod["spec"]["containers"][0]["volumeMounts"]
        volumes = sorted(one["name"] for one in mounts if one["name"] not in ("config", "tmp"))
        return {
            volume: self.find(PERSISTENT_VOLUME_CLAIM, names.claim(NAME, node_id, volume))
            for volume in volumes
        }

    def _run_pod(self, node_id: int, pod: Manifest) -> None:
        uid = pod["metadata"]["uid"]
        if pod["metadata"].get("deletionTimestamp"):
            self._stop_pod(node_id, pod)
            return
        node = pod["spec"].get("nodeName")
        if pod["spec"].get("schedulingGates"):
            return
        if not node:
            self._schedule(node_id, pod)
            return
        if node in self.down:
            self._ages.pop(uid, None)
            return
        self._ages[uid] = self._ages.get(uid, 0) + 1
        self._run_container(node_id, pod, self._ages[uid])

    def _schedule(self, node_id: int, pod: Manifest) -> None:
        claims = [one for one in self._claims(node_id, pod).values() if one is not None]
        if len(claims) < len(self._claims(node_id, pod)):
            return
        volumes = [one["spec"]["volumeName"] for one in claims if one["spec"].get("volumeName")]
        if volumes:
            able = [volumes[0].partition("-on-")[2]]
        else:
            taken = [one["spec"].get("nodeName") for one in self.pods().values()]
            able = sorted(
                (f"node{n}" for n in range(NODES)), key=lambda one: (taken.count(one), one)
            )
        able = [one for one in able if one not in self.down and one not in self.cordoned]
        resources = pod["spec"]["containers"][0].get("resources") or {}
        if (resources.get("requests") or {}).get("memory") == TOO_MUCH_MEMORY:
            able = []
        if not volumes and not self.has_room:
            able = []
        if not able:
            lack = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
            self._set_status(pod, {"conditions": [lack]})
            return
        for claim in claims:
            if not claim["spec"].get("volumeName"):
                self._bind(claim, able[0])
        self._change(POD, pod["metadata"]["name"], {"spec": {"nodeName": able[0]}})

    def _bind(self, claim: Manifest, node: str) -> None:
        name = claim["metadata"]["name"]
        volume = f"{claim['metadata']['uid'][:8]}-on-{node}"
        self._make_volume(volume, node)
        self._change(PERSISTENT_VOLUME_CLAIM, name, {"spec": {"volumeName": volume}})
        status = {"phase": "Bound", "capacity": claim["spec"]["resources"]["requests"]}
        self.store.update(
            PERSISTENT_VOLUME_CLAIM,
            NAMESPACE,
            name,
            lambda old: {**old, "status": status},
            is_status=True,
        )

    def _make_volume(self, name: str, node: str) -> None:
        term = {"key": HOST_NAME_LABEL, "operator": "In", "values": [_host_name(node)]}
        affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}}
        manifest = {"metadata": {"name": name}, "spec": {"nodeAffinity": affinity}}
        self.store.create(PERSISTENT_VOLUME, "", manifest)

    def _run_container(self, node_id: int, pod: Manifest, age: int) -> None:
        image = pod["spec"]["containers"][0]["image"]
        files = (self.find(CONFIG_MAP, names.config_map(NAME)) or {"data": {}})["data"]
        if node_id in self._running:
            return
        if image == MISSING_IMAGE:
            self._set_waiting(pod, "ImagePullBackOff")
        elif not files or any(item not in files for item in _mounted(pod["spec"])):
            self._set_waiting(pod, "ContainerCreating")
        elif image == HANGING_IMAGE:
            self._set_status(pod, _container_status(is_started=False))
        elif image == CRASHING_IMAGE or _is_unusable(files):
            self._set_waiting(pod, "CrashLoopBackOff" if age > CRASH_LOOP_SECONDS else "Error")
        else:
            self._start(node_id, pod, files)

    def _start(self, node_id: int, pod: Manifest, files: dict[str, str]) -> None:
        own = files.get(own_file(node_id), files[SHARED_FILE])
        settings = dict(line.partition("=")[::2] for line in own.splitlines())
        claims = self._claims(node_id, pod)
        uids = {volume: one["metadata"]["uid"] for volume, one in claims.items() if one}
        if len(uids) < len(claims):
            return
        self._running[node_id] = pod["metadata"]["uid"]
        self.brokers.start(
            node_id,
            uids,
            settings.get("broker.rack"),
            settings["default.replication.factor"],
            1 + self._random.integer(4),
        )
        status = {**_container_status(is_started=False), "podIP": f"10.0.0.{node_id}"}
        self._set_status(pod, status)

    def _probe(self) -> None:
        """A pod is ready when its broker takes part; it stays so while the process runs."""
        for node_id, pod in self.pods().items():
            if self._running.get(node_id) != pod["metadata"]["uid"]:
                continue
            process = self.brokers.processes.get(node_id)
            if process is None or not process.has_joined:
                continue
            is_hampered = self._has_crashed_proxy(node_id, pod)
            if is_hampered == self.is_ready(node_id) or is_hampered:
                self._set_served(node_id, pod, is_hampered=is_hampered)

    def _has_crashed_proxy(self, node_id: int, pod: Manifest) -> bool:
        """Whether the container beside the broker does not run; each start is good for a moment."""
        if not self.are_proxies_down or len(pod["spec"]["containers"]) < 2:
            return False
        phase = (self._seconds + 11 * node_id) % PROXY_SECONDS
        return phase >= PROXY_RUNS_SECONDS

    def _set_served(self, node_id: int, pod: Manifest, *, is_hampered: bool) -> None:
        ready = {"type": "Ready", "status": "False" if is_hampered else "True"}
        status = {**_container_status(is_started=True), "conditions": [ready]}
        status["containerStatuses"][0] |= {"ready": True, "state": {"running": {}}}
        uid = pod["metadata"]["uid"]
        last = {"lastState": {"terminated": {"exitCode": 1, "reason": "Error"}}}
        if is_hampered:
            self._proxies_started[uid] = ""
            crash = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}}
            status["containerStatuses"].append({"name": "proxy", "started": False, **crash, **last})
        elif uid in self._proxies_started:
            started = self._proxies_started[uid] or self.store.now().isoformat()
            self._proxies_started[uid] = started
            runs = {"state": {"running": {"startedAt": started}}}
            status["containerStatuses"].append({"name": "proxy", "started": True, **runs, **last})
        self._set_status(pod, {**status, "podIP": f"10.0.0.{node_id}"})

    def _end(self, node_id: int, pod: Manifest) -> None:
        self._ages.pop(pod["metadata"]["uid"], None)
        if self._running.get(node_id) == pod["metadata"]["uid"]:
            del self._running[node_id]
            self.brokers.stop(node_id)
        self._set_status(pod, _container_status(is_started=False))

    def _stop_pod(self, node_id: int, pod: Manifest) -> None:
        if pod["spec"].get("nodeName") in self.down:
            return
        uid = pod["metadata"]["uid"]
        self._stopping[uid] = self._stopping.get(uid, 0) + 1
        if self._stopping[uid] == 1:
            self._end(node_id, pod)
        if self._stopping[uid] > 1 + self._random.integer(3):
            gone = {"metadata": {"finalizers": None}}
            self._change(POD, pod["metadata"]["name"], gone)

    def _set_waiting(self, pod: Manifest, reason: str) -> None:
        container = {"name": "broker", "started": False, "state": {"waiting": {"reason": reason}}}
        self._set_status(pod, {"containerStatuses": [container]})

    def _set_status(self, pod: Manifest, status: Manifest) -> None:
        name = pod["metadata"]["name"]
        found = self.find(POD, name)
        if found is None or found["metadata"]["uid"] != pod["metadata"]["uid"]:
            return
        if (found.get("status") or {}) == status:
            return
        self.store.update(
            POD, NAMESPACE, name, lambda old: {**old, "status": status}, is_status=True
        )

    def _change(self, kind: Kind, name: str, patch: Manifest) -> None:
        try:
            self.store.update(kind, NAMESPACE, name, lambda old: merge_patched(old, patch))
        except Refused as refused:
            self._tell(f"{kind.kind} {name}: {refused}")


def _container_status(*, is_started: bool) -> Manifest:
    status: dict[str, Any] = {"containerStatuses": [{"name": "broker", "started": is_started}]}
    return status


def is_foreign(manifest: Manifest) -> bool:
    """Whether somebody else has made it."""
    return bool(manifest["metadata"].get("labels") == FOREIGN_LABELS)


def _host_name(node: str) -> str:
    return f"host-of-{node}"


def _mounted(spec: Manifest) -> list[str]:
    return [
        item["key"]
        for volume in spec.get("volumes") or ()
        for item in (volume.get("configMap") or {}).get("items") or ()
    ]


def _is_unusable(files: dict[str, str]) -> bool:
    """Whether a broker would refuse its settings and end."""
    return "num.io.threads=none" in files.get(SHARED_FILE, "")

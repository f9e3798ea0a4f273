"""What must never happen, whatever users, nodes and the API server do.

What the operator does is judged by what it could know: by what was so when the pass began, and by
what is so when it acts. Only what was wrong at both moments is its fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from barnabas_operator.broker_spec import delete_claim_of
from barnabas_operator.kubernetes.kinds import (
    BROKER,
    CONFIG_MAP,
    LEASE,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    SERVICE,
    STATEFUL_SET,
    TOPIC,
    Kind,
)
from barnabas_operator.kubernetes.objects import finalizers_of, is_going, is_paused
from barnabas_operator.reconcile.broker.deletion_plan import FINALIZER
from barnabas_operator.reconcile.broker.revision import CONFIG_ANNOTATION, REVISION_ANNOTATION
from barnabas_operator.spec import INTERNAL_TOPICS
from barnabas_operator.work.key import Key, KeyKind
from tests.simulation.operator.brokers import Brokers
from tests.simulation.operator.kubernetes import NAME, NAMESPACE, Kubernetes, is_foreign
from tests.support.fake_kubernetes_store import FakeStore, Manifest

DELETION_SECONDS_MAX = 300
GONE_SECONDS = 2  # longer than from the last look at pods to the deletion of one
BROKERS_MAX = 6
IDENTIFIED_SECONDS = 30  # a pass is over by then
GOOD_IMAGE = "good:0"


class Wrong(Exception):
    """What must never happen."""


@dataclass(frozen=True, kw_only=True)
class Picture:
    """What was so at a moment, as far as rules ask for it."""

    size: int  # of the StatefulSet
    expected: frozenset[int]
    serving: frozenset[int]
    down: frozenset[int]  # of those that are expected to serve
    members: frozenset[int]
    in_touch: frozenset[int]
    registered: int
    controller: int | None
    in_sync: Mapping[str, tuple[frozenset[int], int, int]]  # alive, minimum, replicas
    held: Mapping[int, int]  # partitions by broker
    manifest: Manifest | None
    images: Mapping[int, str]
    crashing: frozenset[int]  # beside which a container crashes, of pods that are as declared
    plain: frozenset[int]  # that have no container beside them


@dataclass
class Checks:
    """The rules; `acting` is called before each write of the operator, `tick` every second."""

    store: FakeStore
    kubernetes: Kubernetes
    brokers: Brokers
    made: set[str] = field(default_factory=set)  # ids of topics that the operator has made
    writes: list[str] = field(default_factory=list)
    _before: Picture | None = None
    _foreign: set[str] = field(default_factory=set)  # uids of objects of somebody else
    _stopped: set[int] = field(default_factory=set)  # brokers that served, in this pass
    _identified: int = 0  # for so many seconds the Broker has said whose cluster it is
    _going: dict[str, int] = field(default_factory=dict)
    _gone: dict[int, int] = field(default_factory=dict)  # how long brokers have had no pod

    def picture(self) -> Picture:
        brokers, pods = self.brokers, self.kubernetes.pods()
        manifest = self.store.objects[BROKER].get((NAMESPACE, NAME))
        found = self.kubernetes.find(STATEFUL_SET, NAME)
        current = 0 if found is None else found["spec"]["replicas"]
        parked = set(((_spec(manifest).get("maintenance") or {}).get("park")) or ())
        joined = brokers.joined
        held: dict[int, int] = {}
        for one in brokers.partitions():
            for node_id in one.replicas:
                held[node_id] = held.get(node_id, 0) + 1
        return Picture(
            size=current,
            expected=frozenset(set(range(current)) - parked),
            serving=frozenset(joined),
            down=frozenset(set(range(current)) - parked - joined),
            members=frozenset(brokers.members),
            in_touch=frozenset(brokers.in_touch),
            registered=len(brokers.registered),
            controller=brokers.controller,
            in_sync={
                f"{one.topic_partition.topic}-{one.topic_partition.partition}": (
                    frozenset(one.in_sync & joined),
                    one.in_sync_min,
                    len(one.replicas),
                )
                for one in brokers.partitions()
                if one.target is None
            },
            held=held,
            manifest=manifest,
            images={
                node_id: pod["spec"]["containers"][0]["image"] for node_id, pod in pods.items()
            },
            crashing=frozenset(
                node_id
                for node_id, pod in pods.items()
                if found is not None and self.kubernetes.are_proxies_down and _crashes(pod, found)
            ),
            plain=frozenset(
                node_id for node_id, pod in pods.items() if len(pod["spec"]["containers"]) == 1
            ),
        )

    def pass_begins(self, key: Key) -> None:
        if key == Key(kind=KeyKind.BROKER, namespace=NAMESPACE, name=NAME):
            self._before = self.picture()
            self._stopped.clear()
            self._foreign = {
                one["metadata"]["uid"]
                for kind in (STATEFUL_SET, CONFIG_MAP, SERVICE)
                for one in self.store.objects[kind].values()
                if is_foreign(one)
            }

    def acting(self, verb: str, kind: Kind | None, name: str, meant: Mapping[str, Any]) -> None:
        """Judge a write that the operator is about to make. Raises: Wrong."""
        what = kind.kind if kind is not None else meant["kind"]
        if what != "Event":
            self.writes.append(f"{verb} {what} {name}")
        self._touches(verb, what, name)
        if self._before is None:
            return
        if verb == "delete" and kind is POD:
            node_id = int(name.rpartition("-")[2])
            pod = self.kubernetes.find(POD, name)
            if pod is not None and pod["metadata"]["uid"] == meant["metadata"]["uid"]:
                self._stops(node_id)
        elif verb == "delete" and kind is STATEFUL_SET:
            self.kubernetes.keeps_orphans = meant["propagation"] == "Orphan"
        elif verb == "delete" and kind is PERSISTENT_VOLUME_CLAIM:
            self._deletes_claim(name, meant["metadata"]["uid"])
        elif verb == "delete" and kind is LEASE:
            self._deletes_record(name)
        elif verb == "apply" and what == "StatefulSet":
            found = self.kubernetes.find(STATEFUL_SET, NAME)
            after = meant["spec"]["replicas"]
            if found is not None and after < found["spec"]["replicas"]:
                self._lowers(after, found["spec"]["replicas"])
        elif verb == "status" and what == "Broker" and name == NAME:
            self._says(meant)

    def _touches(self, verb: str, what: str, name: str) -> None:
        """The operator writes or deletes something; what is somebody else's is not its to touch."""
        for kind in (STATEFUL_SET, CONFIG_MAP, SERVICE):
            found = self.store.objects[kind].get((NAMESPACE, name)) if kind.kind == what else None
            if found is not None and found["metadata"]["uid"] in self._foreign:
                raise Wrong(f"{verb} {what} {name}, which belongs to somebody else")

    def _stops(self, node_id: int) -> None:
        """The operator stops one broker, to start it again unless its Broker is deleted."""
        before, now = self._before, self.picture()
        assert before is not None
        if node_id not in before.serving & now.serving:
            return
        if now.manifest is not None and is_going(now.manifest):
            return
        if self._stopped - {node_id}:
            raise Wrong(f"brokers {sorted(self._stopped | {node_id})} are stopped at once")
        self._stopped.add(node_id)
        if away := before.down & now.down - {node_id}:
            raise Wrong(f"broker {node_id} is stopped while {sorted(away)} are down")
        for other in sorted(before.expected & now.expected - {node_id}):
            if self._gone.get(other, 0) >= GONE_SECONDS:
                raise Wrong(f"broker {node_id} is stopped, and {other} has had no pod for seconds")
        if node_id in before.plain & now.plain and (ill := before.crashing & now.crashing):
            raise Wrong(f"broker {node_id} is stopped while containers crash beside {sorted(ill)}")
        if all(_ends_majority(one, node_id) for one in (before, now)):
            raise Wrong(f"broker {node_id} is stopped: the metadata log loses its majority")
        for topic_partition, (alive, least, replicas) in now.in_sync.items():
            known = before.in_sync.get(topic_partition)
            if known is None or node_id not in alive & known[0] or replicas <= least:
                continue
            if len(alive - {node_id}) < least and len(known[0] - {node_id}) < least:
                raise Wrong(
                    f"broker {node_id} is stopped: {topic_partition} has {sorted(alive)} in sync"
                )

    def _deletes_claim(self, name: str, uid: str) -> None:
        """The operator deletes a claim, and what is on its volume is gone."""
        claim, before = self.kubernetes.find(PERSISTENT_VOLUME_CLAIM, name), self._before
        if claim is None or claim["metadata"]["uid"] != uid:
            return
        assert before is not None
        now = self.picture()
        manifests = [one.manifest for one in (before, now) if one.manifest is not None]
        wishes = [delete_claim_of(one) for one in manifests]
        for node_id, process in self.brokers.processes.items():
            if any(disk.claim_uid == uid for disk in process.disks.values()):
                raise Wrong(f"claim {name} is deleted, which broker {node_id} runs on")
        if now.manifest is not None and is_going(now.manifest):
            if not any(wish.is_when_deleted for wish in wishes):
                raise Wrong(f"claim {name} is deleted with its Broker, and nobody asked for it")
            return
        if not any(wish.is_when_scaled for wish in wishes):
            raise Wrong(f"claim {name} is deleted, and nobody asked for it")
        if all(_spec(one)["replicas"] == 0 for one in manifests):
            raise Wrong(f"claim {name} is deleted, and all brokers are only stopped")
        disk = self.brokers.disks.get(uid)
        if disk is None:
            return
        if any(one is disk for one in self.brokers.members.values()):
            raise Wrong(f"claim {name} is deleted, and the metadata log of a member is on it")
        for one in self.brokers.partitions():
            elsewhere = [d for d in self.brokers.disks.values() if d is not disk]
            if one.end > max((d.lengths.get(one.key, 0) for d in elsewhere), default=0):
                raise Wrong(
                    f"claim {name} is deleted, which alone has all of {one.topic_partition}"
                )

    def _deletes_record(self, name: str) -> None:
        """The operator deletes the Lease that says which cluster it is."""
        lease = self.kubernetes.find(LEASE, name)
        if lease is None:
            return
        if left := sorted(one for _, one in self.store.objects[PERSISTENT_VOLUME_CLAIM]):
            raise Wrong(f"the arbiter's Lease is deleted, and {left} stay")
        if lease["metadata"]["annotations"].get("barnabas.dev/delete") != "true":
            raise Wrong("the arbiter's Lease is deleted, and the API server's policy refuses that")

    def _lowers(self, after: int, current: int) -> None:
        """The operator takes brokers away for good."""
        before, now = self._before, self.picture()
        assert before is not None
        if _spec(before.manifest).get("replicas") == 0 or _spec(now.manifest).get("replicas") == 0:
            return
        # What somebody has added by hand since then the operator has not seen.
        current = min(current, before.size)
        for node_id in range(after, current):
            if before.held.get(node_id) and now.held.get(node_id):
                raise Wrong(f"broker {node_id} is taken away with its partitions")
            if node_id in before.members & now.members:
                raise Wrong(f"broker {node_id} is taken away, a member of the metadata log")
            wanted = min(_spec(one.manifest).get("replicas", current) for one in (before, now))
            if away := before.down & now.down & set(range(min(after, wanted))):
                raise Wrong(f"broker {node_id} is taken away while {sorted(away)} are down")
        if after < current and before.controller is None and now.controller is None:
            raise Wrong("a broker is taken away while nobody leads")

    def _says(self, meant: Mapping[str, Any]) -> None:
        """The operator says how a Broker is."""
        status = meant["status"]
        conditions = {one["type"]: one["status"] for one in status.get("conditions") or ()}
        before, now = self._before, self.picture()
        assert before is not None
        if conditions.get("Ready") != "True" or before.manifest is None or now.manifest is None:
            return
        pictures = before, now
        if not all(map(_wants_some, pictures)):
            return
        if all(one.controller is None for one in pictures):
            raise Wrong("it says Ready, and nobody leads")
        away = set(before.down & now.down)
        for one in pictures:
            away &= set(range(_spec(one.manifest)["replicas"]))
        if away:
            raise Wrong(f"it says Ready, and {sorted(away)} do not serve")
        wanted = _spec(before.manifest).get("image") or GOOD_IMAGE
        was_paused = any(is_paused(one.manifest or {}) for one in pictures)
        if wanted != (_spec(now.manifest).get("image") or GOOD_IMAGE) or was_paused:
            return
        others = {
            node_id
            for node_id, image in now.images.items()
            if image != wanted and before.images.get(node_id) == image and node_id in now.serving
        }
        if others:
            raise Wrong(f"it says Ready, and {sorted(others)} run another image than {wanted}")

    def tick(self, *, is_well: bool) -> None:
        """Every second; `is_well`: an operator runs, and can do its work. Raises: Wrong."""
        broker = self.store.objects[BROKER].get((NAMESPACE, NAME))
        ends_all = broker is not None and is_going(broker) and FINALIZER in finalizers_of(broker)
        if not ends_all and (lost := self.brokers.lost()):
            raise Wrong(f"acknowledged records of {lost} are on no disk")
        pods = self.kubernetes.pods()
        self._gone = {
            node_id: self._gone.get(node_id, 0) + 1
            for node_id in range(BROKERS_MAX)
            if node_id not in pods or is_going(pods[node_id])
        }
        is_known = bool(((broker or {}).get("status") or {}).get("clusterId"))
        self._identified = self._identified + 1 if is_known else 0
        going = {
            one["metadata"]["uid"]: f"{kind.kind} {one['metadata']['name']}"
            for kind in (BROKER, TOPIC)
            for one in self.store.objects[kind].values()
            if "deletionTimestamp" in one["metadata"]
        }
        self._going = {uid: self._going.get(uid, 0) + is_well for uid in going}
        for uid, seconds in self._going.items():
            if seconds > DELETION_SECONDS_MAX:
                raise Wrong(f"{going[uid]} was deleted {seconds} s ago, and is still there")

    def deletes_topic(self, name: str, topic_id: str) -> None:
        """The operator is about to delete a topic at the brokers. Raises: Wrong."""
        if name in INTERNAL_TOPICS:
            raise Wrong(f"{name} is deleted, which belongs to the brokers")
        for (namespace, _), one in self.store.objects[TOPIC].items():
            spec, metadata = one["spec"], one["metadata"]
            if (spec.get("topicName") or metadata["name"]) != name:
                continue
            adopts = (metadata.get("annotations") or {}).get("barnabas.dev/adopt") == "true"
            if (
                namespace == NAMESPACE
                and "deletionTimestamp" in metadata
                and spec.get("deletionPolicy") == "Delete"
                and (adopts or topic_id in self.made)
            ):
                return
        if self._identified < IDENTIFIED_SECONDS:
            return  # whose cluster it is nobody had said when the pass began
        raise Wrong(f"topic {name} is deleted, and nobody has asked for it who may")


def _crashes(pod: Manifest, stateful_set: Manifest) -> bool:
    """Whether a container beside the broker has crashed, of a pod that is as it is declared."""
    template = stateful_set["spec"]["template"]["metadata"]["annotations"]
    made = pod["metadata"]["annotations"]
    if any(made.get(key) != template.get(key) for key in (REVISION_ANNOTATION, CONFIG_ANNOTATION)):
        return False
    return any(
        "lastState" in one for one in (pod.get("status") or {}).get("containerStatuses") or ()
    )


def _spec(manifest: Manifest | None) -> Manifest:
    return {} if manifest is None else manifest["spec"]


def _wants_some(picture: Picture) -> bool:
    """Whether any broker is to serve: users may stop all of them, or park them."""
    spec = _spec(picture.manifest)
    parked = (spec.get("maintenance") or {}).get("park") or ()
    return bool(set(range(spec["replicas"])) - set(parked))


def _ends_majority(picture: Picture, node_id: int) -> bool:
    """Whether the metadata log, which could spare a member, could not commit without this one."""
    if min(len(picture.members), picture.registered) < 3:
        return False
    return 2 * len(picture.in_touch - {node_id}) <= len(picture.members)

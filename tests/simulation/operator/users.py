"""What people and machines do to a cluster while the operator looks after it.

Each story draws which kinds of it there are, so that rare combinations come up. In the end users
put right what they broke, and ask for nothing more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas_operator.kubernetes.kinds import (
    BROKER,
    CONSUMER_GROUP,
    STATEFUL_SET,
    TOPIC,
    Kind,
)
from barnabas_operator.kubernetes.kinds import NAMESPACE as NAMESPACE_KIND
from tests.simulation.operator.brokers import Brokers
from tests.simulation.operator.groups import Groups
from tests.simulation.operator.hands import Hands
from tests.simulation.operator.kubernetes import (
    CRASHING_IMAGE,
    HANGING_IMAGE,
    MISSING_IMAGE,
    NAME,
    NAMESPACE,
    NODES,
    TOO_MUCH_MEMORY,
    Kubernetes,
)
from tests.simulation.operator.neighbours import Neighbours
from tests.simulation.operator.odd_users import OddUsers
from tests.simulation.operator.operator import Faults
from tests.simulation.operator.volume_users import VolumeUsers
from tests.support.fake_kubernetes_store import FakeStore, Manifest, Refused, copied, merge_patched
from tests.support.simulated_random import SimulatedRandom

FOREIGN = "elsewhere"
SIZES = (1, 2, 3, 3, 4, 5)
BAD_SPECS: tuple[Manifest, ...] = (
    {"image": MISSING_IMAGE},
    {"image": HANGING_IMAGE},
    {"image": CRASHING_IMAGE},
    {"resources": {"requests": {"memory": TOO_MUCH_MEMORY}}},
    {"config": {"no.such.setting": "1"}},
    {"config": {"num.io.threads": "none"}},
    {"config": {"log.retention.ms": "soon"}},
    {"config": {"node.id": "7"}},
    {"maintenance": {"park": [0, 1, 2]}},
)


class Users:
    """They act once in a while; `act` is one deed, `settle` the last ones."""

    def __init__(
        self,
        random: SimulatedRandom,
        store: FakeStore,
        kubernetes: Kubernetes,
        brokers: Brokers,
        groups: Groups,
        faults: Faults,
        tell: Callable[[str], None],
        volumes: VolumeUsers,
        neighbours: Neighbours,
        odd: OddUsers,
        hands: Hands,
    ) -> None:
        self._hands = hands
        self.neighbours = neighbours
        self.volumes = volumes
        self.odd = odd
        self._final: Manifest | None = None
        self._random = random
        self._store = store
        self._kubernetes = kubernetes
        self._brokers = brokers
        self._groups = groups
        self._faults = faults
        self._tell = tell
        self.factor_max = (1, 2, 3, 3)[random.integer(4)]
        self._has_racks = random.integer(3) != 0
        self._count = 0
        # By group, the resets that were ever asked for.
        self.resets: dict[str, set[str]] = {}
        kinds = [
            *((self.scale,) * 5),
            *((self.change_settings, self.change_image) * 2),
            *((self.break_spec,) * 3),
            self.ask_for_restart,
            self.pause,
            self.relabel,
            self.maintain,
            self.edit_stateful_set,
            *((self.reboot,) * 3),
            *((self.evict, self.delete_pod) * 2),
            self.cordon,
            *((self.make_topic,) * 3),
            self.change_topic,
            *((self.delete_topic,) * 2),
            self.claim_foreign_topic,
            *((self.work_in_groups,) * 2),
            self.reset_group,
            self.remake_group,
            self.remake_broker,
            *((self.disturb,) * 2),
        ]
        self._kinds = [kind for kind in kinds if random.integer(2)] or [self.scale]

    # ------------------------------------------------------------------ first and last

    def begin(self) -> None:
        """Namespaces, the Broker, and a topic that was there before any resource."""
        for name in (NAMESPACE, FOREIGN):
            self._store.create(NAMESPACE_KIND, "", {"metadata": {"name": name}})
        self._make_broker(max(SIZES[self._random.integer(len(SIZES))], self.factor_max))

    def produce(self) -> None:
        """Clients make topics, and begin to write."""
        for number in range(3):
            factor = self.factor_max if number == 0 else self._draw_factor()
            self._brokers.add_topic(f"data{number}", 1 + self._random.integer(3), factor, {})

    def act(self) -> None:
        """One deed."""
        self.volumes.act()
        self.neighbours.act()
        self.odd.act()
        self._hands.act()
        kind = self._kinds[self._random.integer(len(self._kinds))]
        try:
            kind()
        except Refused as refused:
            self._tell(f"users: {kind.__name__}: {refused}")

    def settle(self) -> None:
        """Put right what was broken."""
        self._faults.per_thousand = 0
        self._faults.is_api_away = self._faults.are_brokers_unreachable = False
        self._brokers.has_arbiter = self._kubernetes.has_controllers = True
        self._kubernetes.cordoned.clear()
        for node in self._kubernetes.down:
            self._kubernetes.down[node] = min(self._kubernetes.down[node], 5)
        for group in self._groups.groups.values():
            group.members = 0
        replicas = max(SIZES[self._random.integer(len(SIZES))], self.factor_max)
        if self._broker() is None:
            self._make_broker(replicas)
        image = f"good:{self._random.integer(3)}"
        found = self._broker()
        if (
            found is not None
            and found["spec"]["image"].startswith("good")
            and self._random.integer(3)
        ):
            image = found["spec"]["image"]  # nobody is rolled, and old pods stay
        labels = {"team": f"t{self._random.integer(3)}"}
        self._final = {"replicas": replicas, "image": image, "podTemplate": {"labels": labels}}
        self._replace_spec(self._final)
        self.volumes.settle()
        self.neighbours.settle(replicas)
        self.odd.settle()
        annotations = {"barnabas.dev/paused": None, "barnabas.dev/approve": None}
        self._change(BROKER, NAME, {"metadata": {"annotations": annotations}})
        self._tell(f"users settle for {replicas} brokers of {image}")

    def insist(self) -> None:
        """Make the Broker again that was still being deleted when they settled."""
        if self._final is not None and (NAMESPACE, NAME) not in self._store.objects[BROKER]:
            self._make_broker(self._final["replicas"])
            self._replace_spec(self._final)
            self.odd.settle()

    # ------------------------------------------------------------------ the Broker

    def _broker(self) -> Manifest | None:
        found = self._store.objects[BROKER].get((NAMESPACE, NAME))
        return None if found is None or "deletionTimestamp" in found["metadata"] else found

    def _make_broker(self, replicas: int) -> None:
        if (NAMESPACE, NAME) in self._store.objects[BROKER]:
            return
        spec: Manifest = {"replicas": replicas, "image": "good:0"}
        spec["storage"] = copied(self.volumes.storage)
        if self._has_racks:
            spec["rack"] = {"topologyKey": "topology.kubernetes.io/zone"}
        manifest = {
            "apiVersion": BROKER.api_version,
            "kind": "Broker",
            "metadata": {"name": NAME, "namespace": NAMESPACE},
            "spec": spec,
        }
        self._store.create(BROKER, NAMESPACE, manifest)
        self._tell(f"users make the Broker, with {replicas}")

    def _change(self, kind: Kind, name: str, patch: Manifest, namespace: str = NAMESPACE) -> None:
        self._store.update(kind, namespace, name, lambda old: merge_patched(old, patch))

    def _change_spec(self, patch: Manifest) -> None:
        if self._broker() is not None:
            self._tell(f"users change the Broker: {patch}")
            self._change(BROKER, NAME, {"spec": patch})

    def _replace_spec(self, spec: Manifest) -> None:
        """As `kubectl replace` does: what is not said is not wanted any more."""

        def replaced(old: Manifest) -> Manifest:
            kept = {key: old["spec"][key] for key in ("storage", "rack") if key in old["spec"]}
            return {**old, "spec": {**kept, **copied(spec)}}

        self._store.update(BROKER, NAMESPACE, NAME, replaced)

    def scale(self) -> None:
        replicas = SIZES[self._random.integer(len(SIZES))]
        if self._random.integer(12) == 0:
            replicas = 0
        self._change_spec({"replicas": replicas})

    def change_settings(self) -> None:
        key = ("num.io.threads", "log.retention.ms", "num.recovery.threads")[
            self._random.integer(3)
        ]
        value = None if self._random.integer(3) == 0 else str(1 + self._random.integer(9))
        self._change_spec({"config": {key: value}})

    def change_image(self) -> None:
        self._change_spec({"image": f"good:{self._random.integer(4)}"})

    def break_spec(self) -> None:
        """A mistake, and mostly its correction after a while, or another mistake."""
        if self._random.integer(2):
            self._change_spec(copied(BAD_SPECS[self._random.integer(len(BAD_SPECS))]))
            return
        broker = self._broker()
        if broker is not None:
            self._tell("users take their mistakes back")
            self._replace_spec({"replicas": broker["spec"]["replicas"], "image": "good:0"})

    def ask_for_restart(self) -> None:
        self._count += 1
        note = {"metadata": {"annotations": {"barnabas.dev/restart": str(self._count)}}}
        if self._broker() is not None:
            self._tell("users ask for a restart")
            self._change(BROKER, NAME, note)

    def pause(self) -> None:
        value = "true" if self._random.integer(2) else None
        if self._broker() is not None:
            self._tell(f"users pause: {value}")
            self._change(
                BROKER, NAME, {"metadata": {"annotations": {"barnabas.dev/paused": value}}}
            )

    def relabel(self) -> None:
        self._change_spec({"podTemplate": {"labels": {"team": f"t{self._random.integer(3)}"}}})

    def maintain(self) -> None:
        node_id = self._random.integer(3)
        maintenance: tuple[Manifest, ...] = (
            {"park": [node_id], "decommission": None},
            {"park": None, "decommission": [node_id]},
            {"park": None, "decommission": None},
            {"park": None, "decommission": None},
        )
        self._change_spec({"maintenance": maintenance[self._random.integer(4)]})

    def edit_stateful_set(self) -> None:
        """Somebody adds a sidecar by hand."""
        found = self._kubernetes.find(STATEFUL_SET, NAME)
        if found is None:
            return
        containers = copied(found["spec"]["template"]["spec"]["containers"])
        if len(containers) == 1:
            containers.append({"name": "shell", "image": "busybox:1"})
            self._tell("users add a sidecar to the StatefulSet by hand")
            self._change(
                STATEFUL_SET, NAME, {"spec": {"template": {"spec": {"containers": containers}}}}
            )

    def remake_broker(self) -> None:
        broker = self._broker()
        if broker is not None and self._random.integer(3) == 0:
            self._tell("users delete the Broker")
            self._store.delete(BROKER, NAMESPACE, NAME)
        elif broker is None:
            self._make_broker(max(SIZES[self._random.integer(len(SIZES))], self.factor_max))

    # ------------------------------------------------------------------ nodes and pods

    def _is_calm(self) -> bool:
        """Whether one more accident would be the only one."""
        pods = self._kubernetes.pods()
        return not self._kubernetes.down and all(map(self._kubernetes.is_ready, pods))

    def reboot(self) -> None:
        if self._kubernetes.down and self._random.integer(4):
            return
        pods = self._kubernetes.pods().values()
        nodes = sorted({one["spec"].get("nodeName") or "node0" for one in pods}) or ["node0"]
        node = nodes[self._random.integer(len(nodes))]
        seconds = (3, 10, 30, 90)[self._random.integer(4)]
        self._tell(f"{node} reboots, for {seconds} s")
        self._kubernetes.reboot(node, seconds)

    def evict(self) -> None:
        node_id = self._random.integer(5)
        if self._kubernetes.evict(node_id):
            self._tell(f"the pod of broker {node_id} is evicted")

    def delete_pod(self) -> None:
        node_id = self._random.integer(5)
        if self._is_calm() or self._random.integer(4) == 0:
            self._tell(f"somebody deletes the pod of broker {node_id}")
            self._kubernetes.delete_pod(node_id)

    def cordon(self) -> None:
        node = f"node{self._random.integer(NODES)}"
        if node in self._kubernetes.cordoned:
            self._kubernetes.cordoned.discard(node)
        else:
            self._kubernetes.cordoned.add(node)
        self._tell(f"cordoned: {sorted(self._kubernetes.cordoned)}")

    def disturb(self) -> None:
        """Faults of the API server, the network and the arbiter come and go."""
        what = self._random.integer(6)
        self._faults.per_thousand = (0, 0, 30, 150, 400, 0)[what]
        self._faults.is_api_away = what == 5 and self._random.integer(2) == 0
        self._faults.are_brokers_unreachable = self._random.integer(5) == 0
        self._brokers.has_arbiter = self._random.integer(3) != 0
        if not self._brokers.has_arbiter:
            self._brokers.controller = None  # and nobody can be elected for now
        self._kubernetes.has_controllers = self._random.integer(5) != 0
        self._tell(
            f"faults {self._faults.per_thousand}, API away {self._faults.is_api_away}, brokers cut"
            f" off {self._faults.are_brokers_unreachable}, arbiter {self._brokers.has_arbiter},"
            f" controllers {self._kubernetes.has_controllers}"
        )

    def begin_outage(self) -> None:
        """Something is away for long, and people go on all the same."""
        self._faults.per_thousand, self._faults.is_api_away = 0, False
        what = self._random.integer(3)
        self._brokers.has_arbiter = what != 0
        if what == 0:
            self._brokers.controller = None
        self._faults.are_brokers_unreachable = what == 1
        self._tell(f"a long outage of {('the arbiter', 'the brokers', 'nothing')[what]}")
        self.delete_topic()

    # ------------------------------------------------------------------ topics

    def _draw_factor(self) -> int:
        return 1 + self._random.integer(self.factor_max)

    def make_topic(self) -> None:
        number = self._random.integer(6)
        name = f"topic{number}"
        if self._random.integer(3) == 0:
            if self._brokers.add_topic(name, 1 + self._random.integer(3), self._draw_factor(), {}):
                self._tell(f"a client makes {name}")
            return
        spec = {
            "partitions": 1 + self._random.integer(3),
            "replicas": self._draw_factor(),
            "deletionPolicy": ("Delete", "Retain")[self._random.integer(2)],
        }
        self._make(TOPIC, name, spec, adopts=self._random.integer(4) == 0)

    def _make(
        self,
        kind: Kind,
        name: str,
        spec: Manifest,
        *,
        adopts: bool = False,
        namespace: str = NAMESPACE,
    ) -> None:
        if (namespace, name) in self._store.objects[kind]:
            return
        reference = {"name": NAME, "namespace": NAMESPACE}
        metadata: Manifest = {"name": name, "namespace": namespace}
        if adopts:
            metadata["annotations"] = {"barnabas.dev/adopt": "true"}
        manifest = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": metadata,
            "spec": {"brokerRef": reference, **spec},
        }
        self._tell(f"users make {kind.kind} {namespace}/{name}: {spec}")
        self._store.create(kind, namespace, manifest)

    def _some(self, kind: Kind) -> Manifest | None:
        found = [
            one
            for (namespace, _), one in sorted(self._store.objects[kind].items())
            if namespace == NAMESPACE and "deletionTimestamp" not in one["metadata"]
        ]
        return found[self._random.integer(len(found))] if found else None

    def change_topic(self) -> None:
        topic = self._some(TOPIC)
        if topic is None:
            return
        spec: tuple[Manifest, ...] = (
            {"partitions": topic["spec"].get("partitions", 1) + 1},
            {"replicas": self._draw_factor()},
            {"config": {"retention.ms": str(self._random.integer(9))}},
            {"deletionPolicy": ("Delete", "Retain")[self._random.integer(2)]},
        )
        chosen = spec[self._random.integer(4)]
        name = topic["metadata"]["name"]
        self._tell(f"users change Topic {name}: {chosen}")
        self._change(TOPIC, name, {"spec": chosen})

    def delete_topic(self) -> None:
        topic = self._some(TOPIC)
        if topic is not None:
            self._tell(f"users delete Topic {topic['metadata']['name']}")
            self._store.delete(TOPIC, NAMESPACE, topic["metadata"]["name"])

    def claim_foreign_topic(self) -> None:
        """A Topic of another namespace, or of an internal topic, which is deleted at once."""
        name = ("topic0", "topic1", "__consumer_offsets")[self._random.integer(3)]
        self._brokers.add_topic("__consumer_offsets", 1, self.factor_max, {})
        spec = {"topicName": name, "deletionPolicy": "Delete", "replicas": self.factor_max}
        namespace = FOREIGN if not name.startswith("_") or self._random.integer(2) else NAMESPACE
        self._make(TOPIC, "claim", spec, namespace=namespace, adopts=True)
        if self._random.integer(2) and (namespace, "claim") in self._store.objects[TOPIC]:
            self._tell(f"users delete Topic {namespace}/claim")
            self._store.delete(TOPIC, namespace, "claim")

    # ------------------------------------------------------------------ groups

    def work_in_groups(self) -> None:
        group_id = f"group{self._random.integer(2)}"
        self._groups.commit(group_id)
        members = self._random.integer(2)
        self._groups.groups[group_id].members = members
        self._tell(f"{group_id} commits, and has {members} members then")

    def reset_group(self) -> None:
        name = f"group{self._random.integer(2)}"
        reset = {"id": f"r{self._random.integer(3)}", "to": "earliest", "whenActive": "Wait"}
        self.resets.setdefault(name, set()).add(reset["id"])
        self._make(CONSUMER_GROUP, name, {"groupId": name})
        self._tell(f"users reset {name}: {reset['id']}")
        self._change(CONSUMER_GROUP, name, {"spec": {"reset": reset}})

    def remake_group(self) -> None:
        """Delete a ConsumerGroup, and make it again as it was, as GitOps does."""
        group = self._some(CONSUMER_GROUP)
        if group is None:
            return
        name = group["metadata"]["name"]
        self._tell(f"users delete ConsumerGroup {name}, and make it again")
        self._store.delete(CONSUMER_GROUP, NAMESPACE, name)
        self._groups.commit(name)
        spec: dict[str, Any] = dict(group["spec"])
        self._make(CONSUMER_GROUP, name, spec)

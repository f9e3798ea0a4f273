"""Other users of the same API server, and what they may declare there besides what is sensible.

A third of the stories have some. They draw by themselves, as `VolumeUsers` do. In another namespace
they have Brokers at addresses that take connections and say nothing, and one that names the address
of a cluster which is not theirs; beside good ConsumerGroups they make some that cannot be meant,
and they declare of the Broker what the schema takes, or took, and nobody can do. A webhook may put
a secret on every pod.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas_operator.kubernetes.kinds import BROKER, CONSUMER_GROUP, TOPIC, Kind
from barnabas_operator.kubernetes.objects import BOOTSTRAP_SERVERS_ANNOTATION
from tests.support.fake_kubernetes_store import FakeStore, Manifest, Refused, merge_patched
from tests.support.simulated_random import SimulatedRandom

ELSEWHERE = "elsewhere"
MIRROR = "mirror"
SILENT = "silent"
SILENT_MAX = 12
ODD_RESETS: tuple[Manifest, ...] = (
    {"to": "timestamp", "timestamp": "9999-12-31T23:59:59.9996Z"},
    {"to": "timestamp", "timestamp": "0001-01-01T00:00:00+23:59"},
)
NO_ZONE = {"schedule": "0 0 * * *", "durationMinutes": 1, "timeZone": "America"}
ODD_SPECS: tuple[Manifest, ...] = (
    {"podTemplate": {"annotations": {"barnabas.dev/restart": "now"}}},
    {"podTemplate": {"labels": {"apps.kubernetes.io/pod-index": "0"}}},
    {"maintenance": {"windows": [NO_ZONE]}},
    {"config": {"num.io.threads=8\nlog.dirs": "/tmp"}},
    {"storage": {"size": "10.3Gi"}},
)


class OddUsers:
    """`act` is a deed now and then, `settle` the last ones."""

    def __init__(
        self,
        random: SimulatedRandom,
        store: FakeStore,
        place: tuple[str, str],
        tell: Callable[[str], None],
    ) -> None:
        self._random = random
        self._store = store
        self._place = place
        self._tell = tell
        self.are_there = random.integer(3) == 0
        self.has_webhook = self.are_there and random.integer(2) == 0
        self._count = 0

    def act(self) -> None:
        """Maybe one deed."""
        if not self.are_there or self._random.integer(3):
            return
        deeds = (self._be_silent, self._mirror, self._reset, self._declare)
        try:
            deeds[self._random.integer(len(deeds))]()
        except Refused as refused:
            self._tell(f"odd users: {refused}")

    def settle(self) -> None:
        """Leave a Broker that can be meant, with a secret of its own where a webhook adds one."""
        if not self.are_there:
            return
        size = {"spec": {"storage": {"size": "10Gi"}}}
        if self.has_webhook:
            size["spec"]["podTemplate"] = {"imagePullSecrets": [{"name": "mine"}]}
        self._change(size)

    def _be_silent(self) -> None:
        self._count += 1
        self._make_broker(f"{SILENT}{self._count % SILENT_MAX}", "silent.example:9092")

    def _mirror(self) -> None:
        """A Topic that would take somebody's topic along, of a Broker of one's own for it."""
        self._make_broker(MIRROR, "demo-bootstrap.kafka.svc:9092")
        name = f"{MIRROR}{self._random.integer(3)}"
        if (ELSEWHERE, name) in self._store.objects[TOPIC]:
            self._tell(f"odd users delete Topic {name}")
            self._store.delete(TOPIC, ELSEWHERE, name)
            return
        spec = {
            "brokerRef": {"name": MIRROR},
            "topicName": f"topic{self._random.integer(6)}",
            "deletionPolicy": "Delete",
            # One may be made before the Broker says whose cluster it is: as small as can be.
            "replicas": 1,
        }
        self._make(TOPIC, ELSEWHERE, name, spec, {"barnabas.dev/adopt": "true"})

    def _reset(self) -> None:
        number = self._random.integer(len(ODD_RESETS))
        reset = {"id": "odd", **ODD_RESETS[number]}
        reference = {"name": self._place[1], "namespace": self._place[0]}
        spec = {"brokerRef": reference, "groupId": "odd", "reset": reset}
        self._make(CONSUMER_GROUP, self._place[0], f"odd{number}", spec)

    def _declare(self) -> None:
        odd = ODD_SPECS[self._random.integer(len(ODD_SPECS))]
        self._tell(f"odd users declare {odd}")
        self._change({"spec": odd})

    def _change(self, patch: Manifest) -> None:
        found = self._store.objects[BROKER].get(self._place)
        if found is not None and "deletionTimestamp" not in found["metadata"]:
            self._store.update(BROKER, *self._place, lambda old: merge_patched(old, patch))

    def _make_broker(self, name: str, servers: str) -> None:
        self._make(BROKER, ELSEWHERE, name, {}, {BOOTSTRAP_SERVERS_ANNOTATION: servers})

    def _make(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        spec: Manifest,
        annotations: Manifest | None = None,
    ) -> None:
        if (namespace, name) in self._store.objects[kind]:
            return
        self._tell(f"odd users make {kind.kind} {name}: {spec}")
        manifest = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"name": name, "namespace": namespace, "annotations": annotations or {}},
            "spec": spec,
        }
        self._store.create(kind, namespace, manifest)

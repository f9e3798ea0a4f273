"""Who and what else is there: objects of others, containers beside brokers, nodes without room.

Half of the stories have some. They draw by themselves, so that what others do in the story of a
seed does not depend on them. Each trouble ends when users settle, but for a lack of room that
nobody needs any more.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas_operator.kubernetes.kinds import (
    BROKER,
    CONFIG_MAP,
    PERSISTENT_VOLUME_CLAIM,
    SERVICE,
    STATEFUL_SET,
    Kind,
)
from barnabas_operator.reconcile.broker import names
from tests.simulation.operator.kubernetes import FOREIGN_LABELS, NAME, NAMESPACE, Kubernetes
from tests.simulation.operator.operator import Faults
from tests.support.fake_kubernetes_store import FakeStore, Manifest
from tests.support.simulated_random import SimulatedRandom

PROXY: Manifest = {"name": "proxy", "image": "proxy:1"}


class Neighbours:
    """`begin` comes before the operator, `act` is maybe a deed, `settle` the last ones."""

    def __init__(
        self,
        random: SimulatedRandom,
        store: FakeStore,
        kubernetes: Kubernetes,
        faults: Faults,
        tell: Callable[[str], None],
    ) -> None:
        self._random = random
        self._store = store
        self._kubernetes = kubernetes
        self._faults = faults
        self._tell = tell
        self.are_there = random.integer(2) == 1

    def begin(self) -> None:
        """Some have names before the Broker does."""
        if self.are_there and self._random.integer(4) == 0:
            self._take_name(STATEFUL_SET, NAME)

    def act(self) -> None:
        """Maybe one deed."""
        if not self.are_there or self._random.integer(4):
            return
        deeds = (
            self._take_some_name,
            self._leave,
            self._stop_proxies,
            self._declare_proxy,
            self._take_room,
            self._use_quota,
        )
        deeds[self._random.integer(len(deeds))]()

    def settle(self, replicas: int) -> None:
        """Everything ends, but that there is no room for more brokers than there have been."""
        self._leave()
        self._kubernetes.are_proxies_down = False
        self._faults.is_quota_used = False
        for node_id in range(replicas):
            claim = self._kubernetes.find(PERSISTENT_VOLUME_CLAIM, names.claim(NAME, node_id))
            if claim is None or not claim["spec"].get("volumeName"):
                self._kubernetes.has_room = True

    def _take_some_name(self) -> None:
        kind, name = (
            (STATEFUL_SET, NAME),
            (CONFIG_MAP, names.config_map(NAME)),
            (SERVICE, names.bootstrap_service(NAME)),
            (SERVICE, names.broker_service(NAME, 4)),
        )[self._random.integer(4)]
        self._take_name(kind, name)

    def _take_name(self, kind: Kind, name: str) -> None:
        if (NAMESPACE, name) in self._store.objects[kind]:
            return
        self._tell(f"somebody else makes {kind.kind} {name}")
        manifest: Manifest = {"metadata": {"name": name, "labels": dict(FOREIGN_LABELS)}}
        if kind is STATEFUL_SET:
            manifest["spec"] = {"replicas": 2, "volumeClaimTemplates": []}
        self._store.create(kind, NAMESPACE, manifest)

    def _leave(self) -> None:
        for kind in (STATEFUL_SET, CONFIG_MAP, SERVICE):
            for (_, name), one in sorted(self._store.objects[kind].items()):
                if one["metadata"].get("labels") == FOREIGN_LABELS:
                    self._tell(f"{kind.kind} {name} of somebody else goes")
                    self._store.delete(kind, NAMESPACE, name)

    def _stop_proxies(self) -> None:
        self._kubernetes.are_proxies_down = not self._kubernetes.are_proxies_down
        self._tell(f"containers beside brokers crash: {self._kubernetes.are_proxies_down}")

    def _declare_proxy(self) -> None:
        found = self._store.objects[BROKER].get((NAMESPACE, NAME))
        if found is None or "deletionTimestamp" in found["metadata"]:
            return
        self._tell("users declare a container beside each broker")
        template = {**(found["spec"].get("podTemplate") or {}), "containers": [PROXY]}

        def declared(old: Manifest) -> Manifest:
            return {**old, "spec": {**old["spec"], "podTemplate": template}}

        self._store.update(BROKER, NAMESPACE, NAME, declared)

    def _take_room(self) -> None:
        self._kubernetes.has_room = not self._kubernetes.has_room
        self._tell(f"room for new brokers: {self._kubernetes.has_room}")

    def _use_quota(self) -> None:
        self._faults.is_quota_used = not self._faults.is_quota_used
        self._tell(f"the quota of Services is used up: {self._faults.is_quota_used}")

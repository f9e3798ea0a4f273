"""People who change by hand what is the operator's to keep.

A third of the stories have some. They draw by themselves, as `OddUsers` do. They scale the
StatefulSet instead of the Broker, or as well, and take statuses away, as who restores resources
without their status does. Nothing of it has to be put right by them.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas_operator.kubernetes.kinds import BROKER, CONSUMER_GROUP, STATEFUL_SET, TOPIC
from tests.simulation.operator.kubernetes import NAME, NAMESPACE, Kubernetes
from tests.support.fake_kubernetes_store import FakeStore, Manifest, merge_patched
from tests.support.simulated_random import SimulatedRandom


class Hands:
    """`act` is a deed now and then."""

    def __init__(
        self,
        random: SimulatedRandom,
        store: FakeStore,
        kubernetes: Kubernetes,
        tell: Callable[[str], None],
    ) -> None:
        self._random = random
        self._store = store
        self._kubernetes = kubernetes
        self._tell = tell
        self.are_there = random.integer(3) == 0

    def act(self) -> None:
        """Maybe one deed."""
        if not self.are_there or self._random.integer(4):
            return
        (self._scale_set, self._scale_both, self._lose_status)[self._random.integer(3)]()

    def _scale_set(self) -> None:
        found = self._kubernetes.find(STATEFUL_SET, NAME)
        if found is None:
            return
        replicas = self._random.integer(6)
        self._tell(f"somebody scales the StatefulSet to {replicas} by hand")
        patch = {"spec": {"replicas": replicas}}
        self._store.update(STATEFUL_SET, NAMESPACE, NAME, lambda old: merge_patched(old, patch))

    def _scale_both(self) -> None:
        """Fewer are declared, and somebody does not wait for the operator."""
        found = self._kubernetes.find(STATEFUL_SET, NAME)
        broker = self._store.objects[BROKER].get((NAMESPACE, NAME))
        if found is None or broker is None or "deletionTimestamp" in broker["metadata"]:
            return
        replicas = max(found["spec"]["replicas"] - 1, 1)
        self._tell(f"somebody scales Broker and StatefulSet to {replicas} by hand")
        patch = {"spec": {"replicas": replicas}}
        for kind in (BROKER, STATEFUL_SET):
            self._store.update(kind, NAMESPACE, NAME, lambda old: merge_patched(old, patch))

    def _lose_status(self) -> None:
        kind = (BROKER, TOPIC, CONSUMER_GROUP)[self._random.integer(3)]
        found = sorted(name for where, name in self._store.objects[kind] if where == NAMESPACE)
        if not found:
            return
        name = found[self._random.integer(len(found))]
        self._tell(f"the status of {kind.kind} {name} is lost")

        def without_status(old: Manifest) -> Manifest:
            return {key: value for key, value in old.items() if key != "status"}

        self._store.update(kind, NAMESPACE, name, without_status, is_status=True)

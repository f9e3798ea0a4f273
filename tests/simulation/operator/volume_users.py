"""Users who want more volumes, or fewer, and have claims deleted or not.

Half of the stories have some. They draw by themselves, so that what others do in the story of a
seed does not depend on them.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas_operator.broker_spec import DeleteClaim
from barnabas_operator.kubernetes.kinds import BROKER, PERSISTENT_VOLUME_CLAIM
from tests.simulation.operator.brokers import Brokers
from tests.support.fake_kubernetes_store import FakeStore, Manifest, copied
from tests.support.simulated_random import SimulatedRandom

MORE = "more"


class VolumeUsers:
    """What is declared about storage; `act` is a deed now and then, `settle` the last ones."""

    def __init__(
        self,
        random: SimulatedRandom,
        store: FakeStore,
        brokers: Brokers,
        place: tuple[str, str],
        tell: Callable[[str], None],
    ) -> None:
        self._random = random
        self._store = store
        self._brokers = brokers
        self._place = place
        self._tell = tell
        self.are_there = random.integer(2) == 1
        self.storage: Manifest = {"size": "10Gi"}
        if self.are_there:
            self._draw_volumes()
            self.storage["deleteClaim"] = self._draw_wish()

    def act(self) -> None:
        """Maybe one deed."""
        if not self.are_there or self._random.integer(5):
            return
        deed = (self._change_volumes, self._change_wish, self._empty)[self._random.integer(3)]
        deed()

    def settle(self) -> None:
        """Ask for what can be: a volume with something on it is declared."""
        if any(name.startswith(MORE) for _, name in self._store.objects[PERSISTENT_VOLUME_CLAIM]):
            self.storage["volumes"] = [{"name": "data"}, {"name": MORE}]
            self._declare()

    def _draw_wish(self) -> str:
        return list(DeleteClaim)[self._random.integer(len(DeleteClaim))].value

    def _draw_volumes(self) -> None:
        if self._random.integer(2):
            self.storage["volumes"] = [{"name": "data"}, {"name": MORE}]
        else:
            self.storage.pop("volumes", None)

    def _change_volumes(self) -> None:
        self._draw_volumes()
        self._declare()

    def _change_wish(self) -> None:
        self.storage["deleteClaim"] = self._draw_wish()
        self._declare()

    def _declare(self) -> None:
        found = self._store.objects[BROKER].get(self._place)
        if found is None or "deletionTimestamp" in found["metadata"]:
            return
        self._tell(f"users declare storage: {self.storage}")
        storage = copied(self.storage)
        self._store.update(
            BROKER, *self._place, lambda old: {**old, "spec": {**old["spec"], "storage": storage}}
        )

    def _empty(self) -> None:
        """Move what is on the second volume to the first, on all brokers that run."""
        self._tell("users move replicas off the second volume")
        for process in self._brokers.processes.values():
            if MORE in process.disks:
                process.disk.lengths.update(process.disks[MORE].lengths)
                process.disks[MORE].lengths.clear()

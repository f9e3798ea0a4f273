"""One story: an operator, a cluster and its users, from a seed, to its end."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from barnabas_operator.kubernetes.kinds import BROKER, CONSUMER_GROUP, TOPIC
from barnabas_operator.work.work_queue import ReconcileResult
from tests.simulation.operator.brokers import MEMBERS_MAX, Brokers
from tests.simulation.operator.checks import Checks, Wrong
from tests.simulation.operator.groups import Groups
from tests.simulation.operator.hands import Hands
from tests.simulation.operator.kubernetes import NAME, NAMESPACE, Kubernetes
from tests.simulation.operator.neighbours import Neighbours
from tests.simulation.operator.odd_users import OddUsers
from tests.simulation.operator.operator import BrokersFromAfar, Faults, FaultyApi, Operator
from tests.simulation.operator.users import Users
from tests.simulation.operator.volume_users import VolumeUsers
from tests.support.fake_kubernetes_store import FakeStore
from tests.support.simulated_random import SimulatedRandom
from tests.support.virtual_loop import VirtualClock, run_virtual

DEEDS = 30
WELL_SECONDS_MAX = 1500
QUIET_SECONDS = 130
LONG_WAIT_SECONDS = 420
# What users do about volumes, and what neighbours do, is drawn apart, and by these numbers the
# stories by which earlier faults were found have none of them, and are told as before.
VOLUMES = 0x5890000
NEIGHBOURS = 0x5956D0000
ODD = 0xC3E0000  # and likewise of odd users
HANDS = 0x6AAA50000  # and of people who change by hand what is the operator's
_EXPECTED = ("KubernetesError", "BarnabasError", "TimeoutError")


@dataclass
class Told:
    """How a story went; `reason` is empty where all was well."""

    seed: int
    reason: str = ""
    lines: list[str] = field(default_factory=list)
    deeds: int = 0

    @property
    def counts(self) -> Counter[str]:
        """What is added up over many stories."""
        return Counter({"deeds": self.deeds})


class Story:
    """All that takes part in it."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = SimulatedRandom(seed)
        self.lines: list[str] = []
        self.deeds = 0
        self.bug = ""

    async def run(self) -> None:
        """Tell it. Raises: Wrong."""
        loop = asyncio.get_running_loop()
        self.clock = VirtualClock(loop, wall_ms=1_800_000_000_000)
        self.store = FakeStore(self._now, self._new_uid)
        self.faults = Faults()
        self.brokers = Brokers(self._fork(), self.tell)
        self.groups = Groups(self.brokers)
        self.kubernetes = Kubernetes(self.store, self.brokers, self._fork(), self.tell)
        self.checks = Checks(self.store, self.kubernetes, self.brokers)
        self.users = Users(
            self._fork(),
            self.store,
            self.kubernetes,
            self.brokers,
            self.groups,
            self.faults,
            self.tell,
            VolumeUsers(
                SimulatedRandom(self.seed ^ VOLUMES),
                self.store,
                self.brokers,
                (NAMESPACE, NAME),
                self.tell,
            ),
            Neighbours(
                SimulatedRandom(self.seed ^ NEIGHBOURS),
                self.store,
                self.kubernetes,
                self.faults,
                self.tell,
            ),
            OddUsers(SimulatedRandom(self.seed ^ ODD), self.store, (NAMESPACE, NAME), self.tell),
            Hands(SimulatedRandom(self.seed ^ HANDS), self.store, self.kubernetes, self.tell),
        )
        if self.users.odd.has_webhook:
            self.kubernetes.injected_secrets = ("injected",)
        if self.users.volumes.are_there:
            # Nobody else may bring it to an end.
            self.brokers.on_founded = self.kubernetes.note_record
        self.brokers.on_forgotten = self.groups.groups.clear
        self.brokers.on_topic_made = self.checks.made.add
        self.brokers.on_topic_deleted = self.checks.deletes_topic
        self.users.begin()
        self.users.neighbours.begin()
        self.start_operator()
        ticking = loop.create_task(self._tick())
        telling = loop.create_task(self._tell_all())
        try:
            await asyncio.wait((ticking, telling), return_when=asyncio.FIRST_COMPLETED)
            for task in (ticking, telling):
                if task.done():
                    task.result()
        finally:
            ticking.cancel()
            telling.cancel()
            self.operator.kill()
            await asyncio.gather(ticking, telling, self.operator.ended(), return_exceptions=True)

    def tell(self, line: str) -> None:
        seconds = asyncio.get_running_loop().time()
        self.lines.append(f"{seconds:8.2f} {line}")

    def _fork(self) -> SimulatedRandom:
        return SimulatedRandom(self.random.integer(1 << 62))

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.clock.wall_ms() / 1000, UTC)

    def _new_uid(self) -> str:
        number = self.random.integer(1 << 62)
        return f"{number:016x}"

    # ------------------------------------------------------------------ the operator

    def start_operator(self) -> None:
        self.tell("an operator starts")
        afar = BrokersFromAfar(self.brokers, self.groups, self._fork(), self.faults)
        api = FaultyApi(self.store, self._fork(), self.faults, self._acting)
        self.operator = Operator(
            self.store,
            afar,
            api,
            self.clock,
            self._fork(),
            on_result=self._passed,
            before_pass=self.checks.pass_begins,
        )

    def _acting(self, verb: str, kind: Any, name: str, meant: Any) -> None:
        try:
            self.checks.acting(verb, kind, name, meant)
        except Wrong as wrong:
            self.bug = self.bug or str(wrong)
        what = kind.kind if kind is not None else meant["kind"]
        if verb in ("delete", "apply") or (verb == "patch" and what != "Topic"):
            self.tell(f"  operator: {verb} {what} {name}")

    def _passed(self, done: ReconcileResult) -> None:
        if done.error is None:
            return
        self.tell(f"  operator: {done.key} failed: {type(done.error).__name__}: {done.error}")
        if not any(base.__name__ in _EXPECTED for base in type(done.error).__mro__):
            self.bug = self.bug or f"{done.key}: {type(done.error).__name__}: {done.error}"

    # ------------------------------------------------------------------ time

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(1)
            self.kubernetes.tick()
            self.brokers.tick()
            if self.bug:
                raise Wrong(self.bug)
            for group_id, group in self.groups.groups.items():
                if group.resets > len(self.users.resets.get(group_id, ())):
                    raise Wrong(
                        f"{group_id} was reset {group.resets} times, which nobody asked for"
                    )
            is_well = not (self.faults.per_thousand or self.faults.is_api_away)
            self.checks.tick(is_well=is_well and self.operator.is_alive)

    async def _tell_all(self) -> None:
        draw = self.random.integer
        await asyncio.sleep(20 + draw(60))
        self.users.produce()
        kills_operator = draw(2) == 0
        long_wait = draw(3 * DEEDS)  # one story in three has one
        for number in range(DEEDS):
            self.users.act()
            self.deeds += 1
            if number == long_wait:
                self.users.begin_outage()
                await asyncio.sleep(LONG_WAIT_SECONDS)
            await asyncio.sleep((1, 2, 4, 8, 25)[draw(5)] * (1 + draw(3)) / 2)
            if kills_operator and draw(3) == 0:
                await self._replace_operator(draw(20))
        self.users.settle()
        await self._until_well()
        self.brokers.is_read_only = True
        await self._until_quiet()

    async def _replace_operator(self, seconds: int) -> None:
        self.tell("the operator is killed")
        self.operator.kill()
        await asyncio.sleep(seconds / 4)
        self.start_operator()

    # ------------------------------------------------------------------ the end

    async def _until_well(self) -> None:
        """Wait for what users have asked for last. Raises: Wrong if it does not come."""
        for _ in range(WELL_SECONDS_MAX):
            await asyncio.sleep(1)
            self.users.insist()
            if not self._lacks():
                self.tell("all is as it was asked for")
                return
        raise Wrong(f"it does not come to rest: {self._lacks()}")

    def _lacks(self) -> str:
        """What is not as users have asked for; empty if nothing."""
        broker = self.store.objects[BROKER].get((NAMESPACE, NAME))
        if broker is None:
            return "there is no Broker"
        spec, status = broker["spec"], broker.get("status") or {}
        ready = [one for one in status.get("conditions") or () if one["type"] == "Ready"]
        if status.get("observedGeneration") != broker["metadata"]["generation"]:
            return "the Broker's status is of another generation"
        if not ready or ready[0]["status"] != "True":
            return f"the Broker is not ready: {ready}"
        expected = set(range(spec["replicas"]))
        if self.brokers.joined != expected:
            return f"{sorted(self.brokers.joined)} serve"
        if len(self.brokers.members) != min(MEMBERS_MAX, len(expected)):
            return f"members of the metadata log are {sorted(self.brokers.members)}"
        if behind := [
            o.topic_partition for o in self.brokers.partitions() if set(o.replicas) != o.in_sync
        ]:
            return f"{behind[:3]} are not in sync"
        if any(one.target is not None for one in self.brokers.partitions()):
            return "partitions move"
        labels = ((spec.get("podTemplate") or {}).get("labels") or {}).items()
        for node_id, pod in self.kubernetes.pods().items():
            if not labels <= pod["metadata"]["labels"].items():
                return f"the pod of broker {node_id} lacks labels"
        volumes = {"data", *(one["name"] for one in spec["storage"].get("volumes") or ())}
        if any(not volumes <= set(one.disks) for one in self.brokers.processes.values()):
            return f"not all brokers have the volumes {sorted(volumes)}"
        factor = str(min(3, len(expected)))
        if any(one.factor != factor for one in self.brokers.processes.values()):
            return f"new topics would not get {factor} replicas"
        return self._resources_lack()

    def _resources_lack(self) -> str:
        for (namespace, name), one in sorted(self.store.objects[TOPIC].items()):
            if "deletionTimestamp" in one["metadata"]:
                return f"Topic {namespace}/{name} is going"
            conditions = (one.get("status") or {}).get("conditions") or ()
            if not conditions:
                return f"Topic {namespace}/{name} has no status"
            ready: Any = next((c for c in conditions if c["type"] == "Ready"), {})
            topic = self.brokers.topics.get(one["spec"].get("topicName") or name)
            if ready.get("status") == "True" and topic is None:
                return f"Topic {namespace}/{name} is ready, and does not exist"
            if ready.get("status") == "Unknown":
                return f"Topic {namespace}/{name} is unknown"
        for (namespace, name), one in sorted(self.store.objects[CONSUMER_GROUP].items()):
            status = one.get("status") or {}
            if not status.get("conditions"):
                return f"ConsumerGroup {namespace}/{name} has no status"
            reset = one["spec"].get("reset")
            reasons = {one["reason"] for one in status["conditions"]}
            if "InvalidSpec" in reasons and name.startswith("odd"):
                continue
            if "IdAlreadyUsed" in reasons:
                continue
            if reset and (status.get("reset") or {}).get("id") != reset["id"]:
                return f"ConsumerGroup {namespace}/{name} has not taken {reset['id']} up"
        return ""

    async def _until_quiet(self) -> None:
        """An operator that has nothing to do writes nothing. Raises: Wrong."""
        await asyncio.sleep(QUIET_SECONDS)
        self.checks.writes.clear()
        await asyncio.sleep(QUIET_SECONDS)
        if self.checks.writes:
            raise Wrong(f"an idle operator writes: {self.checks.writes[:5]}")


def tell(seed: int) -> Told:
    """The story of a seed."""
    logging.disable(logging.CRITICAL)
    story = Story(seed)
    told = Told(seed)
    try:
        run_virtual(story.run())
    except Wrong as wrong:
        told.reason = str(wrong)
    except Exception as error:
        told.reason = f"{type(error).__name__}: {error}"
    finally:
        logging.disable(logging.NOTSET)
    told.lines, told.deeds = story.lines, story.deeds
    return told

"""The brokers of one Broker, as far as the operator's decisions touch them.

Which processes run and on which disks, who is a member of the metadata log and who leads it, where
each partition's records are, who is in sync. A record is acknowledged when all in-sync replicas
have it and they are not fewer than min.insync.replicas; it is lost when no disk has it any more.

It is the gateway of all three reconcilers. Not here: pods and nodes (`kubernetes.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from barnabas_client.errors import BrokerUnreachableError, RetriableError, UsageError
from barnabas_operator.gateway.kafka_topics import TopicMeasures
from barnabas_operator.reconcile.broker.cluster_state import (
    BrokerSettings,
    ClusterView,
    MetadataMembers,
    PartitionView,
    RegisteredBroker,
)
from barnabas_operator.reconcile.broker.names import log_directory
from barnabas_operator.reconcile.broker.observed import (
    ProcessView,
)
from barnabas_operator.reconcile.topic_apply import Errors
from barnabas_operator.reconcile.topic_state import (
    ChangeConfig,
    CreateTopic,
    DeleteTopic,
    GrowPartitions,
    ObservedCluster,
    ObservedTopic,
    ReassignReplicas,
    Step,
)
from barnabas_protocol.ids import TopicPartition
from tests.support.simulated_random import SimulatedRandom

CLUSTER_ID = "c1"
MEMBERS_MAX = 3
CATCH_UP_TICKS = 3
ELECTION_TICKS = 2
KNOWN_SETTINGS = ("num.io.threads", "log.retention.ms", "num.recovery.threads")
LIVE_SETTINGS = ("num.io.threads", "log.retention.ms")
DEFAULT_SETTINGS = {"log.retention.ms": "604800000", "num.io.threads": "8"}


@dataclass(eq=False)
class Disk:
    """What a volume holds: how far each partition's records go."""

    claim_uid: str
    lengths: dict[tuple[str, int], int] = field(default_factory=dict)


@dataclass(eq=False)
class Process:
    """A broker that runs; it takes part once it has joined."""

    node_id: int
    disks: dict[str, Disk]  # by volume; the first has the metadata log
    rack: str | None
    factor: str
    starts_in: int
    has_joined: bool = False

    @property
    def disk(self) -> Disk:
        return next(iter(self.disks.values()))

    def length(self, key: tuple[str, int]) -> int:
        return max(disk.lengths.get(key, 0) for disk in self.disks.values())

    def write(self, key: tuple[str, int], end: int) -> None:
        """A new replica goes where there are the fewest."""
        having = [disk for disk in self.disks.values() if key in disk.lengths]
        disk = having[0] if having else min(self.disks.values(), key=lambda d: len(d.lengths))
        disk.lengths[key] = end

    def drop(self, key: tuple[str, int]) -> None:
        for disk in self.disks.values():
            disk.lengths.pop(key, None)


@dataclass
class Registration:
    """What the metadata knows of a broker."""

    rack: str | None
    factor: str
    is_leaving: bool = False


@dataclass(eq=False)
class Partition:
    """One partition; `end` is how many records were acknowledged."""

    topic_id: str
    topic_partition: TopicPartition
    replicas: list[int]
    in_sync: set[int]
    in_sync_min: int
    end: int = 0
    leader: int | None = None
    target: list[int] | None = None
    behind: dict[int, int] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, int]:
        return self.topic_id, self.topic_partition.partition


@dataclass(eq=False)
class TopicOfBrokers:
    """A topic as the metadata has it."""

    topic_id: str
    name: str
    config: dict[str, str]
    partitions: list[Partition]


class Brokers:
    """All of it; `tick` lets a second pass."""

    def __init__(self, random: SimulatedRandom, tell: Callable[[str], None]) -> None:
        self._random = random
        self._tell = tell
        self.disks: dict[str, Disk] = {}  # by the uid of their claims
        self.processes: dict[int, Process] = {}
        self.registered: dict[int, Registration] = {}
        self.members: dict[int, Disk] = {}
        self.was_founded = False
        self.controller: int | None = None
        self.has_arbiter = True
        self.topics: dict[str, TopicOfBrokers] = {}
        self.overrides: dict[str, str] = {}
        self.is_read_only = False  # nobody produces any more
        # The operator has made a topic of an id; it is about to delete one.
        self.on_topic_made: Callable[[str], None] = lambda topic_id: None
        self.on_topic_deleted: Callable[[str, str], None] = lambda name, topic_id: None
        # The first record of an arbiter is made; all is forgotten.
        self.on_founded: Callable[[], None] = lambda: None
        self.on_forgotten: Callable[[], None] = lambda: None
        self._election = 0
        self._topic_count = 0

    # ------------------------------------------------------------------ what is so

    @property
    def joined(self) -> set[int]:
        """The brokers that take part."""
        return {one.node_id for one in self.processes.values() if one.has_joined}

    @property
    def in_touch(self) -> set[int]:
        """The members of the metadata log that have what it says, and run."""
        return {
            node_id
            for node_id, disk in self.members.items()
            if node_id in self.processes
            and self.processes[node_id].disk is disk
            and self.processes[node_id].starts_in <= 0
        }

    def has_majority(self, without: int | None = None) -> bool:
        """Whether the metadata log can commit."""
        return 2 * len(self.in_touch - {without}) > len(self.members)

    def partitions(self) -> list[Partition]:
        return [one for topic in self.topics.values() for one in topic.partitions]

    def lost(self) -> list[str]:
        """The partitions of which no disk has all that was acknowledged."""
        return [
            f"{one.topic_partition.topic}-{one.topic_partition.partition}"
            for one in self.partitions()
            if one.end > max((d.lengths.get(one.key, 0) for d in self.disks.values()), default=0)
        ]

    # ------------------------------------------------------------------ processes and disks

    def start(
        self,
        node_id: int,
        claim_uids: Mapping[str, str],
        rack: str | None,
        factor: str,
        starts_in: int,
    ) -> None:
        """A container starts on its volumes."""
        disks = {
            volume: self.disks.setdefault(uid, Disk(uid)) for volume, uid in claim_uids.items()
        }
        self.processes[node_id] = Process(node_id, disks, rack, factor, starts_in)

    def lose_disk(self, claim_uid: str) -> None:
        """A claim is gone, and its volume with it."""
        self.disks.pop(claim_uid, None)

    def forget(self) -> None:
        """The arbiter's record is gone, and every disk: the next brokers found a cluster anew."""
        self._tell("nothing is left of the cluster")
        self.was_founded = False
        self.controller = None
        self.members.clear()
        self.registered.clear()
        self.topics.clear()
        self.overrides.clear()
        self.on_forgotten()

    def stop(self, node_id: int) -> None:
        """A process ends; a controlled shutdown and a kill differ by time only."""
        self.processes.pop(node_id, None)

    # ------------------------------------------------------------------ time

    def tick(self) -> None:
        """Let a second pass."""
        for process in self.processes.values():
            process.starts_in -= 1
        self._found()
        self._elect()
        if self.controller is not None:
            self._join()
            self._change_members()
        for one in self.partitions():
            self._advance(one)

    def _found(self) -> None:
        """The first broker founds the cluster; later ones never do."""
        ready = [one for one in self.processes.values() if one.starts_in <= 0]
        if not self.was_founded and ready and self.has_arbiter:
            first = min(ready, key=lambda one: one.node_id)
            self.members = {first.node_id: first.disk}
            self.was_founded = True
            self.on_founded()

    def _elect(self) -> None:
        if not self.has_majority():
            self.controller = None
            self._election = 0
            return
        if self.controller in self.in_touch:
            return
        self.controller = None
        if not self.has_arbiter:
            return
        self._election += 1
        if self._election > ELECTION_TICKS:
            staying = {n for n in self.in_touch if not self._is_leaving(n)} or self.in_touch
            self.controller = sorted(staying)[self._random.integer(len(staying))]
            self._election = 0
            self._tell(f"broker {self.controller} leads the control plane")

    def _is_leaving(self, node_id: int) -> bool:
        found = self.registered.get(node_id)
        return found is not None and found.is_leaving

    def _join(self) -> None:
        for node_id, process in self.processes.items():
            if process.starts_in <= 0 and not process.has_joined:
                process.has_joined = True
                before = self.registered.get(node_id)
                self.registered[node_id] = Registration(
                    process.rack, process.factor, before is not None and before.is_leaving
                )
                if node_id in self.members and self.members[node_id] is not process.disk:
                    # A replaced disk does not keep its voter.
                    del self.members[node_id]

    def _change_members(self) -> None:
        """One change at a time, as long as those that stay are a majority of themselves."""
        going = {n for n in self.members if self._is_leaving(n) or n not in self.registered}
        for node_id in sorted(going):
            rest = set(self.members) - {node_id}
            if 2 * len(rest & self.in_touch) > len(rest):
                del self.members[node_id]
                self._tell(f"broker {node_id} leaves the metadata log")
                return
        coming = {n for n in self.joined - set(self.members) if not self._is_leaving(n)}
        if coming and len(self.members) < MEMBERS_MAX:
            node_id = min(coming)
            self.members[node_id] = self.processes[node_id].disk
            self._tell(f"broker {node_id} becomes a member of the metadata log")

    def _length(self, one: Partition, node_id: int) -> int:
        process = self.processes.get(node_id)
        return 0 if process is None else process.length(one.key)

    def _advance(self, one: Partition) -> None:
        joined = self.joined
        self._lead(one, joined)
        if self.controller is not None and one.leader is not None:
            for node_id in list(one.in_sync):
                if node_id not in joined and len(one.in_sync) > 1:
                    one.in_sync.discard(node_id)
        if one.leader is None:
            return
        if len(one.in_sync & joined) == len(one.in_sync) >= one.in_sync_min:
            one.end += not self.is_read_only
        for node_id in one.in_sync & joined:
            self.processes[node_id].write(one.key, one.end)
        for node_id in one.replicas:
            if node_id in one.in_sync or node_id not in joined:
                one.behind[node_id] = CATCH_UP_TICKS
                continue
            one.behind[node_id] = one.behind.get(node_id, CATCH_UP_TICKS) - 1
            if one.behind[node_id] <= 0 and self.controller is not None:
                self.processes[node_id].write(one.key, one.end)
                one.in_sync.add(node_id)
        if (
            one.target is not None
            and set(one.target) <= one.in_sync
            and self.controller is not None
        ):
            self._finish_move(one)

    def _lead(self, one: Partition, joined: set[int]) -> None:
        able = {
            node_id
            for node_id in one.in_sync & joined
            if self._length(one, node_id) >= one.end  # an empty disk is not elected
        }
        if one.leader not in able:
            one.leader = None
            if self.controller is not None:
                one.leader = next((n for n in one.replicas if n in able), None)

    def _finish_move(self, one: Partition) -> None:
        assert one.target is not None
        for node_id in set(one.replicas) - set(one.target):
            if node_id in self.processes:
                self.processes[node_id].drop(one.key)
        one.replicas, one.target = one.target, None
        one.in_sync &= set(one.replicas)
        if one.leader not in one.in_sync:
            one.leader = None

    # ------------------------------------------------------------------ what users do themselves

    def add_topic(self, name: str, count: int, factor: int, config: Mapping[str, str]) -> bool:
        """A topic is made; returns whether there were brokers enough."""
        if name in self.topics or self.controller is None or len(self._able()) < factor:
            return False
        self._topic_count += 1
        topic = TopicOfBrokers(f"id{self._topic_count}", name, dict(config), [])
        self.topics[name] = topic
        self._add_partitions(topic, count, factor)
        return True

    def _able(self) -> list[int]:
        """The brokers that get replicas: not those that are to go for good."""
        return sorted(node_id for node_id in self.joined if not self._is_leaving(node_id))

    def _add_partitions(self, topic: TopicOfBrokers, count: int, factor: int) -> None:
        able = self._able()
        if not able:
            raise UsageError("there is no broker for it")
        for number in range(len(topic.partitions), count):
            first = self._random.integer(len(able))
            replicas = [able[(first + i) % len(able)] for i in range(min(factor, len(able)))]
            in_sync_min = 2 if factor >= 3 else 1
            topic_partition = TopicPartition(topic.name, number)
            one = Partition(topic.topic_id, topic_partition, replicas, set(replicas), in_sync_min)
            topic.partitions.append(one)

    # ------------------------------------------------------------------ the brokers' reconciler

    def _reachable(self) -> None:
        if not self.joined:
            raise BrokerUnreachableError("nobody answers")

    def _controlled(self) -> None:
        self._reachable()
        if self.controller is None:
            raise RetriableError("no broker leads the control plane")

    def view(self) -> ClusterView:
        """The metadata as a broker tells it. Raises: BrokerUnreachableError."""
        self._reachable()
        joined = self.joined
        members = MetadataMembers()
        if self.controller is not None:
            members = MetadataMembers(
                ids=frozenset(self.members), in_touch=frozenset(self.in_touch), wanted=MEMBERS_MAX
            )
        return ClusterView(
            cluster_id=CLUSTER_ID,
            controller_id=self.controller,
            brokers={
                node_id: RegisteredBroker(
                    node_id=node_id,
                    is_fenced=node_id not in joined,
                    rack=one.rack,
                    factors={"default.replication.factor": one.factor} if node_id in joined else {},
                    is_leaving=one.is_leaving if self.controller is not None else None,
                )
                for node_id, one in sorted(self.registered.items())
            },
            partitions=tuple(map(_view_of, self.partitions())),
            members=members,
            settings=BrokerSettings(
                known=frozenset(KNOWN_SETTINGS),
                live=frozenset(LIVE_SETTINGS),
                defaults=DEFAULT_SETTINGS,
                overrides=dict(self.overrides),
            ),
        )

    def process_views(self, node_ids: Sequence[int]) -> dict[int, ProcessView]:
        return {
            node_id: ProcessView(
                node_id=node_id,
                state="RUNNING" if process.has_joined else "STARTING",
                is_fenced=not process.has_joined,
                drain="running",
                size_bytes=1234,
                held={
                    log_directory(volume): len(disk.lengths) + (disk is process.disk)
                    for volume, disk in process.disks.items()
                    if process.has_joined
                },
                metadata_members=frozenset(self.members),
            )
            for node_id in node_ids
            if (process := self.processes.get(node_id)) is not None and process.starts_in <= 0
        }

    def move(self, moves: Mapping[TopicPartition, Sequence[int]]) -> dict[str, Exception]:
        self._controlled()
        known = {one.topic_partition: one for one in self.partitions()}
        errors: dict[str, Exception] = {}
        for topic_partition, target in moves.items():
            try:
                if topic_partition in known:
                    self._reassign(known[topic_partition], list(target))
            except UsageError as error:
                errors[str(topic_partition)] = error
        return errors

    def _reassign(self, one: Partition, target: list[int]) -> None:
        if any(map(self._is_leaving, set(target) - set(one.replicas))):
            raise UsageError("a broker is to go for good")
        one.target = target
        one.replicas = [*target, *(node_id for node_id in one.replicas if node_id not in target)]

    def change_settings(self, assigned: Mapping[str, str], removed: Sequence[str]) -> None:
        self._controlled()
        if any(not value.isdigit() for value in assigned.values()):
            raise UsageError("is no number")
        self.overrides.update(assigned)
        for key in removed:
            self.overrides.pop(key, None)

    def set_leaving(self, node_id: int, *, is_leaving: bool) -> None:
        self._controlled()
        if node_id in self.registered:
            self.registered[node_id].is_leaving = is_leaving

    def unregister(self, node_id: int) -> None:
        self._controlled()
        if node_id in self.joined:
            raise UsageError("it is alive")
        self.registered.pop(node_id, None)

    # ------------------------------------------------------------------ the topics' reconciler

    def observe_topics(self, names: Sequence[str]) -> ObservedCluster:
        self._reachable()
        return ObservedCluster(
            broker_ids=tuple(sorted(self.joined)),
            topics={name: _observed(self.topics[name]) for name in names if name in self.topics},
        )

    def carry_out(self, steps: Sequence[Step]) -> Errors:
        """Do what a kind of step asks for; the errors by topic."""
        self._reachable()
        if self.controller is None:
            return {step.topic: RetriableError("no broker leads") for step in steps}
        errors: dict[str, Exception] = {}
        for step in steps:
            try:
                self._carry_out(step)
            except UsageError as error:
                errors[step.topic] = error
        return errors

    def _carry_out(self, step: Step) -> None:
        topic = self.topics.get(step.topic)
        if isinstance(step, CreateTopic):
            factor = step.replicas or min(3, len(self.joined))
            if not self.add_topic(step.topic, step.partitions or 1, factor, step.config):
                raise UsageError("exists, or there are too few brokers")
            self.on_topic_made(self.topics[step.topic].topic_id)
            return
        if topic is None:
            raise UsageError("there is no such topic")
        if isinstance(step, GrowPartitions):
            self._add_partitions(topic, step.partitions, len(topic.partitions[0].replicas))
        elif isinstance(step, ChangeConfig):
            topic.config.update(step.assigned)
            for key in step.reset:
                topic.config.pop(key, None)
        elif isinstance(step, ReassignReplicas):
            for number, replicas in step.assignments.items():
                self._reassign(topic.partitions[number], list(replicas))
        elif isinstance(step, DeleteTopic) and topic.topic_id == step.topic_id:
            self.on_topic_deleted(step.topic, step.topic_id)
            self.remove_topic(step.topic)

    def remove_topic(self, name: str) -> None:
        """A topic goes with its records."""
        topic = self.topics.pop(name)
        for disk in self.disks.values():
            for one in topic.partitions:
                disk.lengths.pop(one.key, None)

    def measure(self, topics: Mapping[str, ObservedTopic]) -> TopicMeasures:
        self._reachable()
        found = [self.topics[name] for name in topics if name in self.topics]
        return TopicMeasures(
            sizes_bytes={one.name: 1000 for one in found},
            end_offsets={
                one.name: {p.topic_partition.partition: p.end for p in one.partitions}
                for one in found
            },
        )


def _view_of(one: Partition) -> PartitionView:
    leaving = frozenset() if one.target is None else frozenset(one.replicas) - set(one.target)
    return PartitionView(
        topic_partition=one.topic_partition,
        leader=one.leader,
        replicas=tuple(one.replicas),
        in_sync=frozenset(one.in_sync),
        in_sync_min=one.in_sync_min,
        leaving=leaving,
        is_moving=one.target is not None,
    )


def _observed(topic: TopicOfBrokers) -> ObservedTopic:
    return ObservedTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        assignments=tuple(tuple(one.target or one.replicas) for one in topic.partitions),
        config=dict(topic.config),
        cleanup_policy=topic.config.get("cleanup.policy", "delete"),
        leaderless=sum(one.leader is None for one in topic.partitions),
        under_replicated=sum(len(one.in_sync) < len(one.replicas) for one in topic.partitions),
        moving=sum(one.target is not None for one in topic.partitions),
    )

"""What a seed decides before a story begins: the machines, what is on, and what befalls them when.

Swarm testing: each story has its own small set of features and faults, some of them far too often,
so that combinations come up which a story with a little of everything would never reach. A plan is
a value: `shrink.py` takes things out of it, and what is left happens as before, because every part
of a story draws from a source of its own.
"""

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from typing import NamedTuple

from tests.support.simulated_random import SimulatedRandom

MODULUS = 1 << 62


class Hardship(Enum):
    """How much a story's machines have to bear; what was acknowledged survives all of it."""

    PROCESSES = (
        "page-cache: processes are killed, one machine at a time loses power; without eligible"
        " leader replicas only while all are in sync"
    )
    POWER = "group-fsync: machines lose power, any of them, at any time"


class Feature(StrEnum):
    """Something that is on or off in a story."""

    CLUSTER_ID = "cluster-id"
    DIRECTORIES = "several-directories"
    ONE_REPLICA = "one-replica"
    TWO_REPLICAS = "two-replicas"
    ONE_IN_SYNC = "one-in-sync-is-enough"
    COMMITTER = "committer"
    MEMBERS = "members"
    NOT_IDEMPOTENT = "not-idempotent"
    TEMPORARY_TOPICS = "temporary-topics"
    ELECTIONS = "elections"
    REASSIGNMENTS = "reassignments"
    BURSTS = "bursts-of-reassignments"
    LATE_SWAPS = "late-swaps"
    STATIC_MEMBERS = "static-members"
    SESSIONS = "fetch-sessions"
    FOLLOWER_READS = "follower-reads"
    RETENTION = "retention"
    DELETED_RECORDS = "deleted-records"
    COMPACTION = "compaction"
    NAMES_AGAIN = "topic-names-again"
    WIDE = "many-partitions"
    ELIGIBLE = "eligible-leader-replicas"
    OLD_BROKERS = "brokers-of-the-last-release"
    UNCLEAN = "unclean-elections"
    SLOW_DISKS = "slow-disks"
    COSTLY_SYNCS = "fsyncs-on-the-loop-cost-time"
    FORGETFUL_FOLDERS = "folders-are-not-safe-before-their-fsync"
    REORDERED_WRITES = "reordered-writes"
    FLIPPED_BITS = "flipped-bits"
    METADATA_DIRECTORY = "metadata-directory"
    DRIFT = "clocks-drift"
    FAULTS_OF_DISKS = "fsyncs-fail-and-directories-are-replaced"
    ARBITER_FILE = "the-arbiter-is-a-file"
    RECORD_LOST = "the-arbiters-record-is-lost"
    RECORD_RESTORED = "an-old-record-is-restored"
    FOCUS = "faults-follow-one-partition"
    RETURNS = "replicas-removed-and-returned"
    RESTS = "producers-rest"
    ONE_ACK = "appends-with-one-acknowledgement"
    QUEUE = "share-groups"
    RIGHTS = "rights-taken-and-given-back"
    TRANSACTIONS = "transactions"


SHARES: dict[Feature, int] = {
    # In how many of 100 stories each is on.
    Feature.CLUSTER_ID: 75,
    Feature.DIRECTORIES: 50,
    Feature.ONE_REPLICA: 8,
    Feature.TWO_REPLICAS: 18,
    Feature.ONE_IN_SYNC: 20,
    Feature.COMMITTER: 70,
    Feature.MEMBERS: 40,
    Feature.NOT_IDEMPOTENT: 50,
    Feature.TEMPORARY_TOPICS: 50,
    Feature.ELECTIONS: 50,
    Feature.REASSIGNMENTS: 50,
    Feature.BURSTS: 50,
    Feature.LATE_SWAPS: 40,
    Feature.STATIC_MEMBERS: 40,
    Feature.SESSIONS: 35,
    Feature.FOLLOWER_READS: 50,
    Feature.RETENTION: 25,
    Feature.DELETED_RECORDS: 20,
    Feature.COMPACTION: 20,
    Feature.NAMES_AGAIN: 25,
    Feature.WIDE: 12,
    Feature.ELIGIBLE: 50,
    Feature.OLD_BROKERS: 20,
    Feature.UNCLEAN: 10,
    Feature.SLOW_DISKS: 15,
    Feature.COSTLY_SYNCS: 30,
    Feature.FORGETFUL_FOLDERS: 40,
    Feature.REORDERED_WRITES: 40,
    Feature.FLIPPED_BITS: 30,
    Feature.METADATA_DIRECTORY: 60,
    Feature.DRIFT: 30,
    Feature.FAULTS_OF_DISKS: 40,
    Feature.ARBITER_FILE: 20,
    Feature.RECORD_LOST: 15,
    Feature.RECORD_RESTORED: 15,
    Feature.FOCUS: 50,
    Feature.RETURNS: 50,
    Feature.RESTS: 40,
    Feature.ONE_ACK: 50,
    Feature.QUEUE: 25,
    Feature.RIGHTS: 30,
    Feature.TRANSACTIONS: 25,
}

AWAITED: dict[Feature, str] = {}
"""Features that a known fault of the broker keeps off, and the fault."""

FAULT_WEIGHTS: dict[str, int] = {
    "kill": 4,
    "kill_at_an_operation": 2,
    "lose_power": 3,
    "stop": 3,
    "start": 6,
    "stand_still": 2,
    "go_on": 3,
    "isolate": 3,
    "cut_a_link": 2,
    "cut_one_way": 2,
    "heal": 4,
    "heal_a_link": 3,
    "reset_links": 3,
    "slow_down": 1,
    "slow_a_link": 3,
    "take_the_arbiter_away": 2,
    "bring_the_arbiter_back": 2,
    "slow_the_arbiter": 2,
    "fool_the_arbiters_clients": 2,
    "jump": 1,
    "fill_a_disk": 1,
    "break_a_directory": 1,
    "repair_disks": 2,
    "lose_a_disk": 2,
    "lose_a_directory": 3,
    "fail_an_fsync": 2,
    "lose_the_record": 2,
    "restore_an_old_record": 1,
    "strike_after_an_answer": 4,
}
FEATURE_OF: dict[str, Feature] = {
    # Without its feature such a fault does not happen.
    "lose_a_directory": Feature.FAULTS_OF_DISKS,
    "fail_an_fsync": Feature.FAULTS_OF_DISKS,
    "lose_the_record": Feature.RECORD_LOST,
    "restore_an_old_record": Feature.RECORD_RESTORED,
    "slow_the_arbiter": Feature.ARBITER_FILE,
}
OFTEN: dict[Feature, str] = {Feature.RECORD_LOST: "lose_the_record"}
"""What is of use early in a story, while all is well, comes more often in those that have it."""
OFTEN_TIMES = 4
STRENGTHS = (0, 1, 1, 3)


class Event(NamedTuple):
    """One thing that befalls the cluster: when, what, and the seed of all else about it."""

    at_ms: int
    fault: str
    seed: int


@dataclass(frozen=True)
class Plan:
    """A whole story before it begins."""

    seed: int
    node_count: int
    hardship: Hardship
    features: frozenset[Feature]
    events: tuple[Event, ...]
    length_ms: int
    partitions: int
    latency_ms: float
    strength: int  # of whatever can be more or less, 0 to 99

    def has(self, feature: Feature) -> bool:
        """Whether a feature is on."""
        return feature in self.features

    def draws(self, name: str) -> SimulatedRandom:
        """The draws of one part of the story, which nothing that other parts do changes."""
        return SimulatedRandom(zlib.crc32(name.encode(), self.seed & 0xFFFFFFFF) + self.seed)

    def without(self, *features: Feature) -> "Plan":
        """The plan with features off."""
        return replace(self, features=self.features - set(features))

    def with_events(self, events: Iterable[Event]) -> "Plan":
        """The plan with other events, in order."""
        return replace(self, events=tuple(events))

    def with_features(self, *features: Feature) -> "Plan":
        """The plan with more features on."""
        return replace(self, features=self.features | set(features))

    def lines(self) -> list[str]:
        """The plan in words."""
        features = " ".join(sorted(self.features))
        return [
            f"seed {self.seed}: {self.node_count} nodes, {self.hardship.name.lower()},"
            f" {self.partitions} partitions, latency {self.latency_ms} ms,"
            f" {self.length_ms} ms, strength {self.strength}",
            f"features: {features or 'none'}",
            *(f"{event.at_ms / 1000:8.3f} {event.fault} ({event.seed})" for event in self.events),
        ]

    def clock_rate(self, node_id: int) -> float:
        """How fast a node's clock goes: quartz is much better, machines that migrate are worse."""
        if not self.has(Feature.DRIFT):
            return 1.0
        return 1 + (self.draws(f"clock-{node_id}").fraction() - 0.5) / 10

    def rest_seconds(self, now_seconds: float) -> float:
        """How long producers rest from now on, all of them: logs stand still meanwhile."""
        if not self.has(Feature.RESTS):
            return 0.0
        half_seconds = 1.5 + self.strength % 4
        return max(0.0, half_seconds - now_seconds % (2 * half_seconds))

    @property
    def has_rights(self) -> bool:
        """Whether there are users with rights: all brokers know of ACLs from the beginning."""
        is_new = self.has(Feature.ELIGIBLE) and not self.has(Feature.OLD_BROKERS)
        return self.has(Feature.RIGHTS) and is_new

    @property
    def replicas(self) -> int:
        """How many replicas a topic has."""
        if self.has(Feature.ONE_REPLICA):
            return 1
        if self.has(Feature.TWO_REPLICAS):
            return min(2, self.node_count)
        return min(3, self.node_count)

    @property
    def in_sync_min(self) -> int:
        """How many must have a record before it is acknowledged."""
        if self.has(Feature.ELIGIBLE) and self.hardship is Hardship.PROCESSES:
            return min(2, self.replicas)  # one of them may lose power
        return 1 if self.has(Feature.ONE_IN_SYNC) else min(2, self.replicas)

    def properties(self) -> dict[str, str]:
        """The settings of its brokers."""
        draws = self.draws("properties")
        is_power = self.hardship is Hardship.POWER
        found = {
            "barnabas.flush.policy": "group-fsync" if is_power else "page-cache",
            "log.roll.ms": str(200 + draws.integer(20_000)),
            "log.retention.ms": "-1",
            "replica.high.watermark.checkpoint.interval.ms": "500",
            "log.flush.offset.checkpoint.interval.ms": "500",
            "metadata.log.max.record.bytes.between.snapshots": str(500 + draws.integer(20_000)),
            "log.segment.delete.delay.ms": "500",
            "default.replication.factor": str(self.replicas),
            "offsets.topic.replication.factor": str(self.replicas),
            "min.insync.replicas": str(self.in_sync_min),
        }
        if self.has(Feature.DIRECTORIES):
            found["log.dirs"] = "/data/a,/data/b"
            if self.has(Feature.METADATA_DIRECTORY):
                found["metadata.log.dir"] = ("/data/a", "/data/b")[draws.integer(2)]
        if self.has(Feature.RETENTION):
            found["log.retention.check.interval.ms"] = "700"
        if self.has(Feature.COMPACTION):
            found["log.cleaner.backoff.ms"] = str(100 + draws.integer(400))
        if self.has(Feature.QUEUE):
            found |= {
                "group.share.min.record.lock.duration.ms": "1000",
                "group.share.record.lock.duration.ms": "1500",
                "share.coordinator.state.topic.num.partitions": "1",
                "share.coordinator.state.topic.replication.factor": str(self.replicas),
                "share.coordinator.state.topic.min.isr": str(self.in_sync_min),
                # So that snapshots, and what is cut behind them, come in short stories.
                "share.coordinator.snapshot.update.records.per.snapshot": "5",
                "share.coordinator.state.topic.prune.interval.ms": "1000",
            }
        if self.has(Feature.TRANSACTIONS):
            found |= {
                "transaction.state.log.num.partitions": "2",
                "transaction.state.log.replication.factor": str(self.replicas),
                "transaction.state.log.min.isr": str(self.in_sync_min),
                "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
            }
        shards = (1, 1, 4)[draws.integer(3)]
        # Shards that are cleaned up one after the other have moments in between.
        found["offsets.topic.num.partitions"] = str(8 if self.has(Feature.NAMES_AGAIN) else shards)
        if self.has(Feature.FOLLOWER_READS):
            found["replica.selector.class"] = "RackAwareReplicaSelector"
        if self.has(Feature.CLUSTER_ID):
            found["cluster.id"] = "cluster-of-the-story"
        return found


def draw(seed: int, *, node_count: int | None = None) -> Plan:
    """The plan of a seed."""
    draws = SimulatedRandom(seed)
    drawn_count = (3, 3, 3, 5)[draws.integer(4)]
    hardship = (Hardship.PROCESSES, Hardship.POWER)[draws.integer(2)]
    steps = 2 + draws.integer(25)
    pause_ms_max = (200, 1_000, 3_000)[draws.integer(3)]
    partitions = 1 + draws.integer(2)
    latency_ms = (0.3, 1, 5)[draws.integer(3)]
    strength = draws.integer(100)
    # Each has draws of its own, so that a new feature leaves the old ones of a seed as they were.
    features = frozenset(
        feature
        for feature, share in SHARES.items()
        if zlib.crc32(f"{seed} {feature}".encode()) % 100 < share and feature not in AWAITED
    )
    weights = dict(FAULT_WEIGHTS)
    for feature, fault in OFTEN.items():
        weights[fault] *= OFTEN_TIMES if feature in features else 1
    events = tuple(_events(draws, weights, steps, pause_ms_max))
    return Plan(
        seed=seed,
        node_count=node_count or drawn_count,
        hardship=hardship,
        features=features,
        events=events,
        length_ms=steps * pause_ms_max,
        partitions=partitions,
        latency_ms=latency_ms,
        strength=strength,
    )


def _events(
    draws: SimulatedRandom, weights: Mapping[str, int], steps: int, pause_ms_max: int
) -> Iterable[Event]:
    """What happens all the time in one story hardly does in another."""
    choices = [
        fault
        for fault, weight in weights.items()
        for _ in range(weight * STRENGTHS[draws.integer(len(STRENGTHS))])
    ] or ["kill", "start"]
    at_ms = 0
    for _ in range(steps):
        at_ms += draws.integer(pause_ms_max)
        yield Event(at_ms, choices[draws.integer(len(choices))], draws.integer(MODULUS))

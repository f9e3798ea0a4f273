"""One partition's change of leader, ISR or replicas, with everything that follows from it; pure.

Whatever makes a partition change, the same rules close the change: a reassignment whose replicas
have all caught up is completed (LEAD-10), a leader is elected where the current one is not valid
any more (LEAD-1 to LEAD-6), who leaves an ISR below `min.insync.replicas` stays eligible (LEAD-7,
KIP-966; from level 2 of `barnabas.version` on), the epochs rise. Not here: why a partition changes
(`elections`, `isr`, `reassignment`, `leader_balance`).

Invariants of every record: the leader is -1 or in the ISR; ISR, eligible and last known replicas
are parts of the replicas without a node in common; an ISR of `min.insync.replicas` members or more
has no eligible replicas beside it; before level 2 the ISR is never empty; a new leader, or a
replica less, raises the leader epoch by one; every record raises the partition epoch by one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from enum import Enum
from typing import Final, NamedTuple

from barnabas_broker.controller.eligible_replicas import Eligible, MinInSync
from barnabas_broker.metadata.delta import applied
from barnabas_broker.metadata.image import NO_LEADER, MetadataImage, PartitionImage
from barnabas_broker.metadata.records import PartitionRecord
from barnabas_protocol.ids import ZERO_UUID

_NO_NODES: Final[tuple[int, ...]] = ()


class Election(Enum):
    """Which leader is wanted where the current one is valid, and where none is in the ISR."""

    ONLINE = "keep a valid leader, else the first live replica in the ISR"
    PREFERRED = "the first replica if it can lead, else as ONLINE"
    UNCLEAN = "as ONLINE, but rather any live replica than none: records may be lost"
    COMPARED = "as ONLINE, but rather the given replica than none: nobody answered has a longer log"


class Candidates:
    """The brokers that may lead, and those that may go on leading until another one can.

    A live broker is registered, neither fenced nor shutting down. One that shuts down gets no new
    leadership and keeps what nobody in the ISR can take over (LEAD-5, STOP-3, STOP-6).
    """

    __slots__ = ("_cordoned", "_directories", "live", "min_in_sync", "staying", "unclean")

    def __init__(
        self,
        image: MetadataImage,
        *,
        adding: int = -1,
        without: int = -1,
        unclean: int = -1,
        cordoned: Collection[bytes] = (),
    ) -> None:
        """As the image says; `adding` counts as live, `without` as gone: both are decided now.

        What `unclean` had in its logs may be lost: it is not eligible for being in the ISR now.
        Replicas in `cordoned` directories, whose disks fill up, lead where no other can (VOL-4).
        """
        self._cordoned = cordoned
        brokers = image.brokers
        self.min_in_sync = MinInSync(image)
        self.unclean = unclean
        self.live = {
            broker.node_id
            for broker in brokers.values()
            if not broker.fenced and not broker.is_shutting_down
        }
        self.staying = {broker.node_id for broker in brokers.values() if not broker.fenced}
        if adding >= 0:
            self.live.add(adding)
            self.staying.add(adding)
        self.live.discard(without)
        self.staying.discard(without)
        self._directories = {node: broker.directories for node, broker in brokers.items()}

    def in_order(self, replicas: Sequence[int], partition: PartitionImage) -> Sequence[int]:
        """The order in which replicas are elected: those first whose disks have room."""
        if not self._cordoned or not partition.directories:
            return replicas
        directories = dict(zip(partition.replicas, partition.directories, strict=True))
        return sorted(replicas, key=lambda node: directories.get(node) in self._cordoned)

    def may_lead(self, node_id: int, partition: PartitionImage) -> bool:
        """Whether a broker is live and still has the directory that its replica is in."""
        return node_id in self.live and self.has_replica(node_id, partition)

    def may_go_on(self, node_id: int, partition: PartitionImage) -> bool:
        """Whether a leader may stay until there is another one."""
        return node_id in self.staying and self.has_replica(node_id, partition)

    def has_replica(self, node_id: int, partition: PartitionImage) -> bool:
        """Whether the directory of the replica is among those that work, or is not known yet."""
        if not partition.directories or node_id not in partition.replicas:
            return True
        directory = partition.directories[partition.replicas.index(node_id)]
        known = self._directories.get(node_id)
        return directory == ZERO_UUID or not known or directory in known


class Assignment(NamedTuple):
    """The replicas of a partition and the reassignment under way.

    The replicas hold everything: those that stay, `adding` and `removing`. One that is in both was
    added by an earlier target that a later one replaced: it goes whatever the outcome.
    """

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


def change_partition(
    topic_id: bytes,
    index: int,
    partition: PartitionImage,
    candidates: Candidates,
    *,
    isr: tuple[int, ...],
    election: Election = Election.ONLINE,
    assignment: Assignment | None = None,
    directories: tuple[bytes, ...] | None = None,
    renews_leader_epoch: bool = False,
    preference: Sequence[int] = (),
) -> PartitionRecord | None:
    """The record of the change, None if nothing is different.

    `isr` is what the ISR would be. Before level 2, when it is empty, the ISR stays as it is,
    without a leader, unless the election is an unclean one (LEAD-2). `directories` are given with
    an assignment, one for each of its replicas. `renews_leader_epoch` makes a leader that stays
    begin a new epoch. `preference` is the order in which an unclean election tries replicas; a
    compared one tries no others.
    """
    replicas, adding, removing = assignment or (
        partition.replicas,
        partition.adding_replicas,
        partition.removing_replicas,
    )
    if directories is None:
        directories = partition.directories
    if adding or removing:
        replicas, adding, removing, isr = _advanced(Assignment(replicas, adding, removing), isr)
    min_in_sync = candidates.min_in_sync.of(topic_id)
    eligible = Eligible.beside(isr, partition, replicas, min_in_sync, candidates.unclean)
    leader, isr, is_clean = _elect(
        partition, candidates, Assignment(replicas, adding), isr, eligible, election, preference
    )
    if not isr and min_in_sync is None:
        isr = partition.isr
    if adding or removing:  # an unclean election makes another ISR
        replicas, adding, removing, isr = _advanced(Assignment(replicas, adding, removing), isr)
    eligible = Eligible()
    if is_clean:
        eligible = Eligible.beside(isr, partition, replicas, min_in_sync, candidates.unclean)
    if directories and len(directories) != len(replicas):
        place = dict(zip((assignment or partition).replicas, directories, strict=True))
        directories = tuple([place[node] for node in replicas])
    has_lost_replica = replicas is not partition.replicas and not set(replicas).issuperset(
        partition.replicas
    )
    new_epoch = leader != partition.leader or has_lost_replica
    if renews_leader_epoch and leader != NO_LEADER:
        new_epoch = True
    record = PartitionRecord(
        topic_id,
        index,
        replicas,
        isr,
        leader,
        partition.leader_epoch + new_epoch,
        partition.partition_epoch + 1,
        directories,
        adding,
        removing,
        eligible.replicas,
        eligible.last_known,
    )
    is_same = applied(record) == replace(partition, partition_epoch=record.partition_epoch)
    return None if is_same else record


class _Elected(NamedTuple):
    """The leader, -1 for none, and the ISR under it, whose order does not matter.

    `is_clean`: who was eligible before is so under this leader, too.
    """

    leader: int
    isr: tuple[int, ...]
    is_clean: bool = True


def _elect(
    partition: PartitionImage,
    candidates: Candidates,
    assignment: Assignment,
    isr: tuple[int, ...],
    eligible: Eligible,
    election: Election,
    preference: Sequence[int],
) -> _Elected:
    """The best there is: from the ISR, then from the eligible ones, then as the election says."""
    current, replicas = partition.leader, assignment.replicas
    if election is Election.PREFERRED:
        preferred = replicas[0]
        if preferred in isr and candidates.may_lead(preferred, partition):
            return _Elected(preferred, isr)
    if current in isr and candidates.may_lead(current, partition):
        return _Elected(current, isr)
    for node in candidates.in_order(replicas, partition):
        if node in isr and candidates.may_lead(node, partition):
            return _Elected(node, isr)
    if current in replicas and candidates.may_go_on(current, partition):
        # Shutting down, and nobody else is in sync: it serves on rather than nobody (STOP-6).
        kept = tuple(node for node in partition.isr if node == current or node in isr)
        return _Elected(current, kept)
    for node in candidates.in_order(replicas, partition):
        if node in eligible.replicas and candidates.may_lead(node, partition):
            return _Elected(node, (node,))
    is_only = replicas == eligible.last_known[:1] and not isr and not eligible.replicas
    if is_only and candidates.may_lead(replicas[0], partition):
        return _Elected(replicas[0], replicas, False)  # there is nobody to compare it with
    order: Sequence[int] = ()
    if election is Election.COMPARED:
        order = preference
    elif election is Election.UNCLEAN:
        # A replica that was just added, or begun anew, may not have a single record yet.
        had_all = (*eligible.replicas, *eligible.last_known)
        # Records count for more than room.
        order = sorted(
            candidates.in_order(replicas, partition),
            key=lambda one: (one in assignment.adding, one not in had_all),
        )
        order = (*preference, *order)
    for node in order:
        if node in replicas and candidates.may_lead(node, partition):
            return _Elected(node, (node,), False)
    return _Elected(NO_LEADER, isr)


class Completed(NamedTuple):
    """What a finished reassignment leaves."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]


def completed(assignment: Assignment, isr: Collection[int]) -> Completed | None:
    """The partition after its reassignment, None while that has to wait (LEAD-10).

    It waits until all added replicas are in the ISR; when it takes more replicas away than it
    adds, until all that remain are, so that the ISR does not shrink with the replicas.
    """
    replicas, adding, removing = assignment
    remaining = _without(replicas, removing)
    remaining_isr = _without(isr, removing)
    wanted = remaining if len(adding) < len(removing) else _without(adding, removing)
    if not remaining_isr or any(node not in remaining_isr for node in wanted):
        return None
    return Completed(remaining, remaining_isr)


def _advanced(
    running: Assignment, isr: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Replicas, adding, removing and ISR once the reassignment is done, or as they are."""
    done = completed(running, isr)
    if done is None:
        return *running, isr
    return done.replicas, _NO_NODES, _NO_NODES, done.isr


def _without(nodes: Iterable[int], removed: Collection[int]) -> tuple[int, ...]:
    return tuple(node for node in nodes if node not in removed)


def renewed(topic_id: bytes, index: int, partition: PartitionImage) -> PartitionRecord:
    """The record that raises the partition epoch and changes nothing else."""
    return PartitionRecord(
        topic_id,
        index,
        partition.replicas,
        partition.isr,
        partition.leader,
        partition.leader_epoch,
        partition.partition_epoch + 1,
        partition.directories,
        partition.adding_replicas,
        partition.removing_replicas,
        partition.eligible_leader_replicas,
        partition.last_known_elr,
    )


class PartitionChanges:
    """The records of one command, and the partitions as they are after those records.

    A request may name a partition twice: the second time it meets what the first one made of it.
    """

    __slots__ = ("_changed", "_image", "records")

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._changed: dict[tuple[bytes, int], PartitionImage] = {}
        self.records: list[PartitionRecord] = []

    def partition(self, topic_id: bytes, index: int) -> PartitionImage | None:
        """The partition, None if there is none."""
        changed = self._changed.get((topic_id, index))
        if changed is not None:
            return changed
        topic = self._image.topics.by_id.get(topic_id)
        if topic is None or not 0 <= index < len(topic.partitions):
            return None
        return topic.partitions[index]

    def add(self, record: PartitionRecord) -> PartitionImage:
        """Take one more record; returns the partition as it is after it."""
        self.records.append(record)
        partition = self._changed[record.topic_id, record.partition] = applied(record)
        return partition


def directories_of(
    image: MetadataImage, partition: PartitionImage, replicas: Sequence[int]
) -> tuple[bytes, ...]:
    """The log directory of each replica, as far as it is known already or there is no choice."""
    if tuple(replicas) == partition.replicas:
        return partition.directories
    known = dict(zip(partition.replicas, partition.directories, strict=False))
    directories = []
    for node_id in replicas:
        directory = known.get(node_id)
        if directory is None:
            broker = image.brokers.get(node_id)
            has_one = broker is not None and len(broker.directories) == 1
            directory = broker.directories[0] if broker is not None and has_one else ZERO_UUID
        directories.append(directory)
    return tuple(directories) if any(item != ZERO_UUID for item in directories) else ()

"""Which state of partitions a share group wants made or deleted, and what came of it.

Pure: commands of the shard, before and after what the persister does (`state_requests.py`). Source:
SHR-29, SHR-32.

    plan       members subscribe to partitions without state, or something was left half done
    alter      an admin gives start offsets to a group without members
    delete     an admin deletes the offsets of topics, or of all, of a group without members
    finish     what the persister has done of it

Invariants: no state is made or deleted before the log says that it may be; at most one work of a
group is under way, so that what is made and what is deleted do not overtake one another; each time
that the state of a partition is made has a group epoch of its own, so that the share coordinator
refuses a request that was late. The partitions of a topic become initialized together, so whatever
is added to the topic later is known to be new.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from barnabas_broker.config.share_group_configs import ShareGroupSettings
from barnabas_broker.coordinator.group.consumer.records import GroupEpochValue
from barnabas_broker.coordinator.group.share.changes import ShareGroupChanges
from barnabas_broker.coordinator.group.share.partition_states import PartitionStates, TopicState
from barnabas_broker.coordinator.group.share.share_group import ShareGroup
from barnabas_broker.coordinator.group.share.share_groups import ShareGroups
from barnabas_broker.coordinator.group.topics import Topics
from barnabas_broker.coordinator.runtime.shard import Instant, Result, no_change
from barnabas_protocol.errors import ErrorCode, KafkaError

# Where a partition begins whose start is found out when it is first read.
UNREAD = -1
# Partitions added to a topic that the group knows: nothing in them may be missed.
FIRST_OFFSET = 0
# Topics are taken until so many partitions are in one work; the rest follows.
PARTITIONS_AT_ONCE = 1_000


class NamedPartitions(NamedTuple):
    """A topic's name, and partitions of it."""

    name: str
    partitions: Collection[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionWork:
    """What the persister is to do for a group; topics by id."""

    group_id: str
    state_epoch: int = 0
    # Partition -> start offset.
    initialize: Mapping[bytes, Mapping[int, int]] = field(
        default_factory=dict[bytes, dict[int, int]]
    )
    delete: Mapping[bytes, Collection[int]] = field(default_factory=dict[bytes, range])
    # No admin asked for it: of a topic all succeed or none, and what fails waits for a while.
    is_own: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedWork:
    """Which partitions have state now, which topics have none any more, and whether to wait."""

    initialized: Mapping[bytes, Collection[int]]
    deleted: Collection[bytes]
    retries_later: bool


class PartitionCommands:
    """The commands of one shard that have to do with the state of partitions."""

    def __init__(
        self,
        groups: ShareGroups,
        settings: ShareGroupSettings,
        topics: Topics,
        group_for_alter: Callable[[str, str, Instant], ShareGroup],
    ) -> None:
        self._groups = groups
        self._settings = settings
        self._topics = topics
        self._group_for_alter = group_for_alter

    # ---- by itself -----------------------------------------------------------------------------

    def has_work(self, group: ShareGroup) -> bool:
        """Whether a member wants state that is not there, or something was left half done."""
        return bool(group.partitions.deleting) or any(self._missing(group))

    def is_initializing(self, group: ShareGroup, now: Instant) -> bool:
        """Whether state of partitions is made now, or will be at once."""
        return (
            group.has_work
            and now.monotonic_ms >= group.retry_ms
            and group.partitions.count < self._settings.group_partitions_max
        )

    def plan(self, group_id: str, now: Instant) -> Result[PartitionWork | None]:
        """Begin what the group wants done; None if that is nothing."""
        group = self._groups.get(group_id)
        if group is None:
            return Result(reply=None)
        before = group.partitions
        gone = [each for each in before.topic_ids() if self._topics.topic_name(each) is None]
        states = before.without(gone) if gone else before
        wanted: dict[bytes, TopicState] = {}
        starts: dict[bytes, dict[int, int]] = {}
        room = self._settings.group_partitions_max - states.count
        for topic_id, missing in self._missing(group):
            if room <= 0 or sum(map(len, starts.values())) >= PARTITIONS_AT_ONCE:
                break
            wanted[topic_id] = missing
            newest = max(states.initialized_of(topic_id), default=None)
            starts[topic_id] = {
                each: UNREAD if newest is None or each < newest else FIRST_OFFSET
                for each in missing.partitions
            }
            room -= len(missing.partitions)
        changes = self._groups.changes(group)
        if any(
            not missing.partitions.isdisjoint(states.initializing[topic_id].partitions)
            for topic_id, missing in wanted.items()
            if topic_id in states.initializing
        ):
            raise_group_epoch(changes)
        states = states.with_initializing(wanted)
        if states != before:
            changes.partitions(states)
        work = PartitionWork(
            group_id=group_id,
            state_epoch=group.group_epoch,
            initialize=starts,
            delete={
                topic_id: range(self._topics.partition_count(name))
                for topic_id, name in states.deleting.items()
            },
            is_own=True,
        )
        is_any = bool(work.initialize or work.delete)
        return Result(reply=work if is_any else None, records=changes.records)

    def _missing(self, group: ShareGroup) -> Iterable[tuple[bytes, TopicState]]:
        """Return the partitions that members subscribe to and that are not initialized."""
        states = group.partitions
        for name in sorted(group.name_counts):
            topic_id = self._topics.topic_id(name)
            if topic_id is None or topic_id in states.deleting:
                continue
            known = states.initialized_of(topic_id)
            count = self._topics.partition_count(name)
            if len(known) < count:
                yield topic_id, TopicState(name, frozenset(range(count)) - known)

    # ---- for admins ----------------------------------------------------------------------------

    def alter(
        self, group_id: str, offsets: Mapping[bytes, Mapping[int, int]], host: str, now: Instant
    ) -> Result[PartitionWork]:
        """Begin to give partitions other start offsets; a group that is not there is made.

        Raises: KafkaError 68 if the group has members, 69 if it is of another kind, 81.
        """
        group = self._group_for_alter(group_id, host, now)
        if not group.is_empty:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
        changes = self._groups.changes(group)
        raise_group_epoch(changes)
        states = group.partitions
        new: dict[bytes, TopicState] = {}
        for topic_id, starts in offsets.items():
            name = self._topics.topic_name(topic_id)
            unknown = frozenset(starts) - states.known_of(topic_id)
            if name is not None and unknown:
                new[topic_id] = TopicState(name, unknown)
        if any(topic_id in states.deleting for topic_id in offsets):
            # What was left of a deletion would take the new state with it.
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if new:
            changes.partitions(states.with_initializing(new))
        work = PartitionWork(
            group_id=group_id,
            state_epoch=group.group_epoch,
            initialize=offsets,
        )
        return Result(reply=work, records=changes.records)

    def delete(
        self, group_id: str, topic_ids: Collection[bytes] | None = None
    ) -> Result[PartitionWork]:
        """Begin to delete the state of topics, of all if none are named.

        Those of which there is none are not in what is returned. Raises: KafkaError 68, 69.
        """
        group = self._groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        if not group.is_empty:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
        states = group.partitions
        known = states.topic_ids()
        wanted = known if topic_ids is None else known & set(topic_ids)
        deleted = {each: self._every_partition(states, each) for each in wanted}
        changes = self._groups.changes(group)
        names = {each: topic.name for each, topic in deleted.items() if each not in states.deleting}
        if names:
            changes.partitions(states.with_deleting(names))
        work = PartitionWork(
            group_id=group_id,
            delete={each: topic.partitions for each, topic in deleted.items()},
        )
        return Result(reply=work, records=changes.records, waits_for_commit=True)

    def _every_partition(self, states: PartitionStates, topic_id: bytes) -> NamedPartitions:
        name = self._topics.topic_name(topic_id)
        count = 0 if name is None else self._topics.partition_count(name)
        known = states.known_of(topic_id)
        if name is None:
            name = next(
                (
                    topic.name
                    for topic in (
                        states.initialized.get(topic_id),
                        states.initializing.get(topic_id),
                    )
                    if topic is not None
                ),
                states.deleting.get(topic_id, ""),
            )
        return NamedPartitions(name, sorted(known | set(range(count))))

    # ---- what came of it -----------------------------------------------------------------------

    def finish(self, group_id: str, done: FinishedWork, now: Instant) -> Result[None]:
        """Take over what the persister has done."""
        group = self._groups.get(group_id)
        if group is None:
            return no_change()
        if done.retries_later:
            group.retry_ms = now.monotonic_ms + self._settings.initialize_retry_ms
        states = group.partitions
        made = {
            topic_id: TopicState(name, frozenset(partitions))
            for topic_id, partitions in done.initialized.items()
            if (name := self._topics.topic_name(topic_id)) is not None
        }
        states = states.with_initialized(made) if made else states
        gone = [topic_id for topic_id in done.deleted if topic_id in states.deleting]
        states = states.without(gone) if gone else states
        if states == group.partitions:
            return no_change()
        changes = self._groups.changes(group)
        changes.partitions(states)
        return Result(reply=None, records=changes.records)

    def topics_deleted(self, deleted: Mapping[str, bytes]) -> Result[None]:
        """Forget deleted topics, given by name and id; the share coordinator does so by itself."""
        gone = frozenset(deleted.values())
        result: Result[None] = Result(reply=None, is_atomic=False)
        for group in self._groups.values():
            if not gone.isdisjoint(group.partitions.topic_ids()):
                changes = self._groups.changes(group)
                changes.partitions(group.partitions.without(gone))
                result.records += changes.records
        return result


def raise_group_epoch(changes: ShareGroupChanges) -> None:
    """Raise the group epoch; what is subscribed to has not changed."""
    group = changes.group
    changes.group_epoch(GroupEpochValue(group.group_epoch + 1, group.metadata_hash))

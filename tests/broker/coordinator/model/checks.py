"""What must hold of group coordinators at every moment, told from their log by brute force."""

from __future__ import annotations

from typing import Any

from barnabas_broker.coordinator.group.classic import ClassicGroup, GroupState
from barnabas_broker.coordinator.group.metrics import GroupMetrics
from barnabas_broker.coordinator.group.records import (
    CommittedOffset,
    GroupKey,
    OffsetKey,
    read_group,
    read_key,
    read_offset,
)
from barnabas_broker.coordinator.group.shard import GroupShard
from barnabas_broker.coordinator.runtime.loader import LoadSummary, replay_batches
from barnabas_broker.coordinator.runtime.pipeline import ShardPipeline
from barnabas_protocol.records.record import Record
from tests.broker.coordinator.model.replicated_log import ReplicatedPartition


class Violation(AssertionError):
    """Something that must hold does not."""


def check_replay(
    pipeline: ShardPipeline[GroupShard], partition: ReplicatedPartition, fresh: GroupShard
) -> None:
    """Live state equals what is replayed: of the log, and of what the shard has yet to append."""
    for _ in replay_batches(partition.data(), 0, fresh, LoadSummary()):
        pass
    waiting = list(partition.refused_records)
    for write in pipeline._queue:
        for key, value in write.result.records[write.taken_count :]:
            waiting.append(Record(0, 0, key, value))
    for record in waiting:
        fresh.replay(record, -1)
    live = pipeline.shard
    if sorted(live.offsets.all_offsets()) != sorted(fresh.offsets.all_offsets()):
        raise Violation(f"offsets {_offsets(live)}, replayed {_offsets(fresh)}")
    if set(live.offsets.undecided()) != set(fresh.offsets.undecided()):
        raise Violation("undecided offsets differ from the replayed ones")
    for group_id in {*live.groups, *fresh.groups}:
        group = live.groups.get(group_id)
        if group is None or ("empty", group_id) not in live.timers:
            _check_group(group_id, live, group, fresh.groups.get(group_id))
    for group_id in live.offsets.group_ids():
        if group_id not in live.groups:
            raise Violation(f"{group_id} has offsets and does not exist")


def _check_group(
    group_id: str, live: GroupShard, group: ClassicGroup | None, replayed: ClassicGroup | None
) -> None:
    if group is None:
        if replayed is not None:
            raise Violation(f"{group_id} is not there, replayed {_durable(replayed)}")
    elif group.state is GroupState.STABLE:
        if replayed is None or _durable(group) != _durable(replayed):
            other = None if replayed is None else _durable(replayed)
            raise Violation(f"{group_id} is {_durable(group)}, replayed {other}")
        if group.subscribed_topics != replayed.subscribed_topics:
            raise Violation(f"{group_id} has topics that are not those replayed")
    elif group.state is GroupState.EMPTY:
        if replayed is None:
            if group.generation_id:
                raise Violation(f"{group_id} is Empty and not in the log")
        elif (replayed.state, replayed.generation_id) != (group.state, group.generation_id):
            raise Violation(f"{group_id} is {_durable(group)}, replayed {_durable(replayed)}")
        elif group.generation_id and replayed.state_changed_ms != group.state_changed_ms:
            raise Violation(f"{group_id} became Empty at another time than replayed")
    elif group.state is GroupState.PREPARING_REBALANCE and ("join", group_id) not in live.timers:
        raise Violation(f"{group_id} is {group.state.value} without a timer")
    elif group.state is GroupState.DEAD:
        raise Violation(f"{group_id} is Dead and still there")


def _offsets(shard: GroupShard) -> list[tuple[str, str, int, int, int]]:
    return sorted(
        (group, topic, index, committed.offset, committed.topic_id[0])
        for group, topic, index, committed in shard.offsets.all_offsets()
    )


def _durable(group: ClassicGroup) -> tuple[Any, ...]:
    return (
        group.state.value,
        group.generation_id,
        group.protocol_type,
        group.protocol_name,
        group.leader_id,
        tuple(
            (
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.session_timeout_ms,
                member.rebalance_timeout_ms,
                member.metadata(group.protocol_name or ""),
                member.assignment,
            )
            for member in sorted(group.members.values(), key=lambda each: each.member_id)
        ),
    )


class LogMonitor:
    """Looks at each record when it is appended, and knows what each removal is justified by."""

    def __init__(self, retention_ms: int) -> None:
        self._retention_ms = retention_ms
        self.now_ms = 0
        self.offsets: dict[OffsetKey, CommittedOffset] = {}
        self.groups: dict[str, ClassicGroup] = {}
        self.deleted_topic_ids: set[bytes] = set()
        # When somebody asked last that offsets of the group be removed; None while under way.
        self.removals: dict[str, int | None] = {}
        self._appended_ms: dict[OffsetKey, int] = {}
        # By group, generation and partition: the member that was told to own it.
        self._owners: dict[tuple[str, int], dict[str, str]] = {}

    def forget(self) -> None:
        """Begin anew, as what was not committed is lost; the caller appends all again."""
        self.offsets.clear()
        self.groups.clear()

    def take(self, record: Record, *, is_new: bool = True) -> None:
        assert record.key is not None
        key = read_key(record.key)
        if isinstance(key, GroupKey):
            self._take_group(key.group_id, record, is_new)
        elif key is not None and record.value is not None:
            committed = read_offset(record.value)
            assert committed is not None
            self.offsets[key] = committed
            self._appended_ms[key] = self.now_ms
        elif key is not None:
            committed = self.offsets.pop(key, None)
            if is_new and committed is not None:
                self._check_removal(key, committed)

    def _check_removal(self, key: OffsetKey, committed: CommittedOffset) -> None:
        if committed.topic_id in self.deleted_topic_ids:
            return
        if key.group_id in self.removals:
            asked_ms = self.removals[key.group_id]
            if asked_ms is None or asked_ms >= self._appended_ms[key]:
                return
        group = self.groups.get(key.group_id)
        since_ms = committed.commit_ms
        if group is not None and group.is_empty and group.protocol_type is not None:
            since_ms = group.state_changed_ms
        if self.now_ms - since_ms < self._retention_ms:
            raise Violation(f"the acknowledged offset {committed.offset} of {key} is removed")

    def _take_group(self, group_id: str, record: Record, is_new: bool) -> None:
        if record.value is None:
            self.groups.pop(group_id, None)
            if not is_new:
                return
            for key in [key for key in self._owners if key[0] == group_id]:
                del self._owners[key]
            return
        group = read_group(group_id, record.value)
        assert group is not None
        self.groups[group_id] = group
        if not is_new:
            return
        identities = {
            _identity(each.member_id, each.group_instance_id) for each in group.members.values()
        }
        owners = self._owners.get((group_id, group.generation_id), {})
        for partition in [each for each, owner in owners.items() if owner not in identities]:
            del owners[partition]

    def told(
        self, group_id: str, generation_id: int, member: str, instance: str | None, given: bytes
    ) -> None:
        """A member was told what it owns."""
        owners = self._owners.setdefault((group_id, generation_id), {})
        identity = _identity(member, instance)
        for partition in given.decode().split(",") if given else ():
            if owners.setdefault(partition, identity) != identity:
                raise Violation(
                    f"{owners[partition]} and {identity} own {partition} in generation "
                    f"{generation_id} of {group_id}"
                )


def _identity(member: str, instance: str | None) -> str:
    return member if instance is None else f"static {instance}"


def answers(
    partition: ReplicatedPartition, key: OffsetKey, from_hw: int, current_id: bytes | None
) -> set[int]:
    """Return what a fetch may answer that began at this high watermark and ends now."""
    found = {-1}
    for record in partition.records:
        if record.offset >= partition.high_watermark:
            break
        if record.key is None or read_key(record.key) != key:
            continue
        committed = None if record.value is None else read_offset(record.value)
        offset = -1 if committed is None else committed.offset
        if committed is not None and current_id not in (None, committed.topic_id):
            offset = -1
        found = found | {offset} if record.offset >= from_hw else {offset}
    return found


def fresh_shard(live: GroupShard, settings: Any, topics: Any, random: Any) -> GroupShard:
    return GroupShard(live.partition, settings, random, GroupMetrics(), topics)

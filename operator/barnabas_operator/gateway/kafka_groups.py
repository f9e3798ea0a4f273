"""`GroupGateway` on a real cluster, over `barnabas_client`'s admin client.

Not here: deciding what to do. Looking at a thousand groups costs a few requests for each broker.

Invariants: a topic or group is called absent only where a broker says so; what no broker tells
within some seconds is left out of the answer, and what is left out is not known.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.groups import GroupDescription, GroupState, GroupType
from barnabas_client.admin.values.partitions import OffsetSpec
from barnabas_client.cluster.offset_ranges import OffsetRange
from barnabas_client.cluster.offsets import OffsetAndMetadata
from barnabas_client.errors import BarnabasError, NotFoundError, RetriableError, UsageError
from barnabas_operator.reconcile.group.group_apply import GroupQuestion
from barnabas_operator.reconcile.group.group_state import (
    SHARE_PROTOCOL,
    Action,
    DeleteGroup,
    ObservedGroup,
    ObservedGroups,
    ObservedMember,
    SetOffsets,
)
from barnabas_operator.reconcile.group.reset_targets import ResetError, chosen_partitions
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition

# A partition without a leader must not hold up the groups of all others for a minute.
OFFSETS_TIMEOUT_MS = 5_000
# So many timestamps are looked up in one round; the rest follows with the next ones.
LOOKUPS_MAX = 500


class KafkaGroups:
    """The groups of one cluster; to be kept, because it remembers the timestamps of records."""

    def __init__(self, admin: Admin) -> None:
        self.admin = admin
        self._record_times: dict[tuple[TopicPartition, int], int | None] = {}

    async def list_ids(self) -> tuple[str, ...]:
        """The ids of all groups. Raises: BarnabasError."""
        return tuple(group.group_id for group in await self.admin.groups.list())

    async def observe(self, questions: Sequence[GroupQuestion]) -> ObservedGroups:
        """Look at the groups.

        Raises: BarnabasError if none of them could be seen because the cluster does not answer, or
        topics could not be.
        """
        resets = {one.group_id: one.reset for one in questions if one.reset is not None}
        groups = await self._groups([one.group_id for one in questions])
        named = {topic.name for reset in resets.values() for topic in reset.topics}
        topics = {
            topic_partition.topic
            for group in groups.values()
            for topic_partition in group.partitions
        }
        observed = ObservedGroups(
            groups=groups, partition_counts=await self._partition_counts(topics | named)
        )
        # The partitions of a reset by timestamp, by their moment.
        moments: dict[int, set[TopicPartition]] = defaultdict(set)
        topic_partitions = {
            topic_partition for group in groups.values() for topic_partition in group.committed
        }
        for group_id, reset in resets.items():
            try:
                chosen = chosen_partitions(reset, groups[group_id], observed)
            except ResetError:
                continue  # the planner will say so
            topic_partitions.update(chosen)
            if reset.timestamp_ms is not None:
                moments[reset.timestamp_ms].update(chosen)
        counts = observed.partition_counts
        topic_partitions = {
            topic_partition
            for topic_partition in topic_partitions
            if topic_partition.partition < counts.get(topic_partition.topic, 0)
        }
        ends = await self._ends(topic_partitions)
        observed = replace(
            observed, ends=ends, by_timestamp=await self._by_timestamp(moments, ends)
        )
        return replace(observed, record_times=await self._times_of_unread(observed))

    async def carry_out(self, action: Action) -> Exception | None:
        """Set offsets or delete the group."""
        match action:
            case SetOffsets():
                return await self._set_offsets(action)
            case DeleteGroup():
                deleted = await self.admin.groups.delete([action.group_id])
                error = deleted[action.group_id].error
                return None if isinstance(error, NotFoundError) or _is_gone(error) else error

    async def _set_offsets(self, action: SetOffsets) -> Exception | None:
        offsets = {
            topic_partition: offset
            for topic_partition, offset in action.offsets.items()
            if offset is not None
        }
        forgotten = [
            topic_partition for topic_partition, offset in action.offsets.items() if offset is None
        ]
        if action.is_share:
            return await self._set_starts(action.group_id, offsets, forgotten)
        if offsets:
            committed = {each: OffsetAndMetadata(offset) for each, offset in offsets.items()}
            altered = await self.admin.group_offsets.alter(action.group_id, committed)
            for error in altered.errors.values():
                return error
        if forgotten:
            deleted = await self.admin.group_offsets.delete(action.group_id, forgotten)
            for error in deleted.errors.values():
                if not _is_gone(error):
                    return error
        return None

    async def _set_starts(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, int],
        forgotten: Sequence[TopicPartition],
    ) -> Exception | None:
        """Set where a share group begins; a topic of which nothing stays begins anew."""
        kept = {topic_partition.topic for topic_partition in offsets}
        topics = {topic_partition.topic for topic_partition in forgotten} - kept
        if offsets:
            altered = await self.admin.share_groups.alter_offsets(group_id, offsets)
            for error in altered.errors.values():
                return error
        if topics:
            deleted = await self.admin.share_groups.delete_offsets(group_id, sorted(topics))
            for error in deleted.errors.values():
                if not isinstance(error, NotFoundError) and not _is_gone(error):
                    return error
        return None

    # ---- looking -------------------------------------------------------------------------------

    async def _groups(self, group_ids: Sequence[str]) -> dict[str, ObservedGroup]:
        described, committed = await asyncio.gather(
            self.admin.groups.describe(group_ids), self.admin.group_offsets.list(group_ids)
        )
        groups: dict[str, ObservedGroup] = {}
        others: list[str] = []
        for group_id, outcome in described.items():
            error = outcome.error
            if error is None:
                groups[group_id] = _observed(outcome.unwrap())
            elif isinstance(error, UsageError) or error.code is (
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            ):
                others.append(group_id)
            elif isinstance(error, NotFoundError) or _is_gone(error):
                groups[group_id] = ObservedGroup(group_id=group_id)
            else:
                groups[group_id] = ObservedGroup(group_id=group_id, error=str(error))
        groups.update(await self._groups_of_other_types(others))
        absent = [group_id for group_id, group in groups.items() if group.is_absent]
        shared = await self._share_groups(absent)
        groups.update(shared)
        for group_id, offsets in committed.items():
            if group_id in shared:
                continue
            if offsets.error is not None:
                groups[group_id] = ObservedGroup(group_id=group_id, error=str(offsets.error))
                continue
            told = {
                topic_partition: one.offset
                for topic_partition, one in offsets.unwrap().items()
                if one is not None
            }
            groups[group_id] = replace(groups[group_id], committed=told)
        errors = [*described.errors.values(), *committed.errors.values()]
        unreachable = [error for error in errors if isinstance(error, RetriableError)]
        if unreachable and not any(group.is_known for group in groups.values()):
            raise unreachable[0]
        return groups

    async def _share_groups(self, group_ids: Sequence[str]) -> dict[str, ObservedGroup]:
        """Those of some groups whose members share partitions."""
        if not group_ids:
            return {}
        described = (await self.admin.share_groups.describe(group_ids)).successes
        if not described:
            return {}
        offsets = await self.admin.share_groups.list_offsets(list(described))
        groups = {}
        for group_id, found in described.items():
            outcome = offsets[group_id]
            if outcome.error is not None:
                groups[group_id] = ObservedGroup(group_id=group_id, error=str(outcome.error))
                continue
            begun = {each: one for each, one in outcome.unwrap().items() if one is not None}
            groups[group_id] = ObservedGroup(
                group_id=group_id,
                state=_state(found.state),
                protocol=SHARE_PROTOCOL,
                assignor=found.assignor,
                coordinator=found.coordinator_id,
                members=tuple(
                    ObservedMember(client_id=one.client_id, assignment=one.assignment)
                    for one in found.members
                ),
                committed={each: one.start_offset for each, one in begun.items()},
                left={each: one.lag for each, one in begun.items() if one.lag is not None},
            )
        return groups

    async def _groups_of_other_types(self, group_ids: Sequence[str]) -> dict[str, ObservedGroup]:
        """Groups that are not of consumers, such as those of Connect workers."""
        if not group_ids:
            return {}
        groups = {}
        for group_id, outcome in (await self.admin.groups.describe_classic(group_ids)).items():
            if outcome.error is not None:
                groups[group_id] = ObservedGroup(group_id=group_id, error=str(outcome.error))
                continue
            found = outcome.unwrap()
            groups[group_id] = ObservedGroup(
                group_id=group_id,
                state=_state(found.state),
                protocol=found.protocol_type,
                assignor=found.protocol_name,
                coordinator=found.coordinator_id,
                members=tuple(ObservedMember(client_id=one.client_id) for one in found.members),
            )
        return groups

    async def _partition_counts(self, names: Iterable[str]) -> dict[str, int]:
        described = await self.admin.topics.describe(sorted(names))
        for error in described.errors.values():
            # What cannot be the name of a topic is none of a topic that there is.
            if not isinstance(error, NotFoundError) and (
                error.code is not ErrorCode.INVALID_TOPIC_EXCEPTION
            ):
                raise error
        return {name: len(topic.partitions) for name, topic in described.successes.items()}

    async def _ends(
        self, topic_partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetRange]:
        wanted = sorted(topic_partitions)
        if not wanted:
            return {}
        starts, ends = await asyncio.gather(
            *(
                self.admin.partitions.list_offsets(
                    dict.fromkeys(wanted, spec), timeout_ms=OFFSETS_TIMEOUT_MS
                )
                for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST)
            )
        )
        found: dict[TopicPartition, OffsetRange] = {}
        latest = ends.successes
        for topic_partition, first in starts.successes.items():
            last = latest.get(topic_partition)
            if last is not None and first.offset is not None and last.offset is not None:
                found[topic_partition] = OffsetRange(start=first.offset, end=last.offset)
        return found

    async def _by_timestamp(
        self,
        moments: Mapping[int, Iterable[TopicPartition]],
        ends: Mapping[TopicPartition, OffsetRange],
    ) -> dict[tuple[TopicPartition, int], int]:
        """The first record that is not older than each moment; where there is none, the end."""
        found = {}
        for moment, topic_partitions in moments.items():
            wanted = {
                topic_partition: moment
                for topic_partition in sorted(topic_partitions)
                if topic_partition in ends
            }
            answers = await self.admin.partitions.list_offsets(
                wanted, timeout_ms=OFFSETS_TIMEOUT_MS
            )
            for topic_partition, answer in answers.successes.items():
                is_found = answer.offset is not None
                found[topic_partition, moment] = (
                    answer.offset if is_found else ends[topic_partition].end
                )
        return {key: offset for key, offset in found.items() if offset is not None}

    async def _times_of_unread(
        self, observed: ObservedGroups
    ) -> dict[tuple[TopicPartition, int], int]:
        """The timestamps of the next records that lagging groups would read.

        Records do not change, so each is looked up once.
        """
        wanted = set()
        for group in observed.groups.values():
            for topic_partition in group.committed:
                position = observed.position(group, topic_partition)
                if position is not None and observed.lag(group, topic_partition):
                    wanted.add((topic_partition, position))
        new = sorted(wanted - self._record_times.keys())[:LOOKUPS_MAX]
        # Two groups may stand at two offsets of one partition: a request names a partition once.
        while new:
            once = dict(new)
            times = await self._look_up(once)
            self._record_times.update(times)
            new = [one for one in new if once[one[0]] != one[1]]
        if len(self._record_times) > 2 * len(wanted) + LOOKUPS_MAX:
            self._record_times = {
                key: time for key, time in self._record_times.items() if key in wanted
            }
        told = {key: self._record_times.get(key) for key in wanted}
        return {key: time for key, time in told.items() if time is not None}

    async def _look_up(
        self, offsets: Mapping[TopicPartition, int]
    ) -> dict[tuple[TopicPartition, int], int | None]:
        try:
            answers = await self.admin.partitions.record_timestamps(
                offsets, timeout_ms=OFFSETS_TIMEOUT_MS
            )
        except BarnabasError:
            return {}
        return {
            (topic_partition, offsets[topic_partition]): time
            for topic_partition, time in answers.successes.items()
        }


def _observed(group: GroupDescription) -> ObservedGroup:
    return ObservedGroup(
        group_id=group.group_id,
        state=_state(group.state),
        protocol="consumer" if group.type is GroupType.CONSUMER else "classic",
        assignor=group.assignor,
        coordinator=group.coordinator_id,
        members=tuple(
            ObservedMember(client_id=one.client_id, assignment=one.assignment)
            for one in group.members
        ),
    )


def _state(state: GroupState) -> str:
    return str(state.value)


def _is_gone(error: BarnabasError | None) -> bool:
    """Whether there is no such group."""
    return error is not None and error.code is ErrorCode.GROUP_ID_NOT_FOUND

"""What a consumer group or share group is doing at one moment: members, offsets, partitions.

A value, and the requests that it takes to read one. Not here: how it looks as data
(`group_facts.py`, `share_facts.py`), what it means (`group_diagnosis.py`), how it has moved
(`group_watch.py`).

Invariant: what no broker told is absent from the mappings, and never counted as nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from barnabas_client.admin.values.partitions import OffsetSpec
from barnabas_client.cluster.offset_ranges import OffsetRange
from barnabas_client.errors import BarnabasError
from barnabas_protocol.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas_client.admin.admin import Admin
    from barnabas_client.admin.values.groups import GroupDescription, MemberDescription
    from barnabas_client.admin.values.share_groups import ShareGroupDescription, ShareGroupMember
    from barnabas_client.admin.values.transactions import ProducerState

# A partition whose leader goes away meanwhile must not hold up what is known of all others.
OFFSETS_TIMEOUT_MS = 5_000
# Of so many partitions producers are looked up: who is held back at more is told enough by these.
HELD_BACK_MAX = 50
# Group ids that Spark makes up.
_SPARK_PREFIXES = ("spark-kafka-source-", "spark-kafka-relation-")

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction that keeps readers of committed records from what is behind its start.

    `since_ms` is None where it is not known, and so is the transactional id; a transaction hangs
    when no coordinator is going to end it.
    """

    place: TopicPartition
    start_offset: int
    producer_id: int
    transactional_id: str | None = None
    since_ms: int | None = None
    is_hanging: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupObservation:
    """A group, and what there is to know of the partitions that it reads.

    Of a share group, `committed` is where its records in flight begin, `left` how many are left
    (some behind that are done), and `not_begun` has what it is to read and has not. `starts` and
    `ends` may have partitions of other groups, too. The epochs are None for classic groups.
    """

    group_id: str
    type: str
    state: str
    assignor: str = ""
    coordinator_id: int | None = None
    group_epoch: int | None = None
    assignment_epoch: int | None = None
    members: tuple[MemberDescription | ShareGroupMember, ...] = ()
    committed: Offsets = field(default_factory=dict)
    not_begun: frozenset[TopicPartition] = frozenset()
    left: Offsets = field(default_factory=dict)
    starts: Offsets = field(default_factory=dict)
    ends: Offsets = field(default_factory=dict)
    leaderless: frozenset[TopicPartition] = frozenset()
    open_transactions: tuple[OpenTransaction, ...] = ()

    @property
    def is_share(self) -> bool:
        """Whether its members share partitions (KIP-932)."""
        return self.type == "Share"

    @property
    def places(self) -> list[TopicPartition]:
        """The partitions that it has offsets for or reads now, in order."""
        read = {place for member in self.members for place in member.assignment}
        return sorted({*read, *self.committed, *self.not_begun})

    def lag(self, place: TopicPartition) -> int | None:
        """How many records are left to read; None where that is not known."""
        if place in self.left or self.is_share:
            # Where a share group begins says little: behind it records may be done already.
            return self.left.get(place)
        committed, end = self.committed.get(place), self.ends.get(place)
        if committed is None or end is None:
            return None
        return OffsetRange(self.starts.get(place, 0), end).lag(committed)

    @property
    def lags(self) -> dict[TopicPartition, int]:
        """The lag of each partition where it is known."""
        lags = {place: self.lag(place) for place in self.places}
        return {place: lag for place, lag in lags.items() if lag is not None}


def application_of(group_id: str) -> str:
    """What is known to make such group ids up; empty for most."""
    return "spark" if group_id.startswith(_SPARK_PREFIXES) else ""


async def observe_groups(admin: Admin, group_ids: Iterable[str]) -> list[GroupObservation]:
    """Consumer groups of either protocol. Raises: the client's errors."""
    described = (await admin.groups.describe(group_ids)).unwrap()
    committed = (await admin.group_offsets.list(list(described))).unwrap()
    groups = [
        consumer_group_observation(
            group,
            {place: one.offset for place, one in committed[group_id].items() if one is not None},
        )
        for group_id, group in described.items()
    ]
    return await _with_ends(admin, groups)


async def observe_share_groups(admin: Admin, group_ids: Iterable[str]) -> list[GroupObservation]:
    """Share groups. Raises: the client's errors."""
    names = list(group_ids)
    described, started = await asyncio.gather(
        admin.share_groups.describe(names), admin.share_groups.list_offsets(names)
    )
    groups = []
    starts = started.unwrap()
    for group_id, group in described.unwrap().items():
        begun = {place: one for place, one in starts[group_id].items() if one is not None}
        groups.append(
            share_group_observation(
                group,
                {place: one.start_offset for place, one in begun.items()},
                {place: one.lag for place, one in begun.items() if one.lag is not None},
                frozenset(starts[group_id].keys() - begun.keys()),
            )
        )
    return await _with_ends(admin, groups)


def consumer_group_observation(group: GroupDescription, committed: Offsets) -> GroupObservation:
    """A consumer group without anything about its partitions."""
    return GroupObservation(
        group_id=group.group_id,
        type=str(group.type),
        state=str(group.state),
        assignor=group.assignor,
        coordinator_id=group.coordinator_id,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        members=group.members,
        committed=committed,
    )


def share_group_observation(
    group: ShareGroupDescription,
    started: Offsets,
    left: Offsets,
    not_begun: frozenset[TopicPartition] = frozenset(),
) -> GroupObservation:
    """A share group without anything about its partitions but how much of each is left."""
    return GroupObservation(
        group_id=group.group_id,
        type="Share",
        state=str(group.state),
        assignor=group.assignor,
        coordinator_id=group.coordinator_id,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        members=group.members,
        committed=started,
        not_begun=not_begun,
        left=left,
    )


async def _with_ends(admin: Admin, groups: list[GroupObservation]) -> list[GroupObservation]:
    places = {place for group in groups for place in group.places}
    with_leader, leaderless = await partitions_by_leadership(admin, places)
    starts, ends = await asyncio.gather(
        end_offsets(admin, with_leader, OffsetSpec.EARLIEST),
        end_offsets(admin, with_leader, OffsetSpec.LATEST),
    )
    return [
        replace(group, starts=starts, ends=ends, leaderless=leaderless.intersection(group.places))
        for group in groups
    ]


async def partitions_by_leadership(
    admin: Admin, places: Collection[TopicPartition]
) -> tuple[list[TopicPartition], frozenset[TopicPartition]]:
    """Those that have a leader, and those that have none now; what is not there is neither."""
    if not places:
        return [], frozenset()
    described = await admin.topics.describe(sorted({place.topic for place in places}))
    known = {
        TopicPartition(topic.name, number): partition.leader_id
        for topic in described.successes.values()
        for number, partition in topic.partitions.items()
    }
    wanted = [place for place in sorted(places) if place in known]
    return (
        [place for place in wanted if known[place] is not None],
        frozenset(place for place in wanted if known[place] is None),
    )


async def end_offsets(
    admin: Admin,
    places: Collection[TopicPartition],
    spec: OffsetSpec,
    *,
    read_committed: bool = False,
) -> dict[TopicPartition, int]:
    """The first or the end offsets of partitions, as far as brokers tell within a few seconds."""
    if not places:
        return {}
    found = await admin.partitions.list_offsets(
        dict.fromkeys(places, spec), read_committed=read_committed, timeout_ms=OFFSETS_TIMEOUT_MS
    )
    return {place: one.offset for place, one in found.successes.items() if one.offset is not None}


async def with_open_transactions(admin: Admin, group: GroupObservation) -> GroupObservation:
    """The group with the transactions at whose start it waits, if any.

    A group that reads uncommitted records goes past them and waits for none. What may not be
    looked at is left out.
    """
    behind = [place for place, lag in group.lags.items() if lag and not group.is_share]
    try:
        stable = await end_offsets(admin, behind, OffsetSpec.LATEST, read_committed=True)
        # Only the last stable offset itself stops a reader; who is below it has more to read.
        held = sorted(
            place
            for place, offset in stable.items()
            if offset < group.ends[place] and group.committed[place] == offset
        )[:HELD_BACK_MAX]
        if not held:
            return group
        producers = await admin.transactions.describe_producers(held, timeout_ms=OFFSETS_TIMEOUT_MS)
    except BarnabasError:
        return group
    # The oldest open transaction of a partition is the one that ends where readers wait.
    oldest: dict[TopicPartition, ProducerState] = {}
    for place, states in producers.successes.items():
        started = [one for one in states if one.transaction_start_offset is not None]
        if started:
            oldest[place] = min(started, key=lambda one: one.transaction_start_offset or 0)
    found = await _named(admin, oldest)
    return replace(group, open_transactions=tuple(found))


async def _named(
    admin: Admin, oldest: Mapping[TopicPartition, ProducerState]
) -> list[OpenTransaction]:
    """The transactions with what their coordinators know of them."""
    if not oldest:
        return []
    try:
        listed = await admin.transactions.list(
            producer_ids={one.producer_id for one in oldest.values()},
            timeout_ms=OFFSETS_TIMEOUT_MS,
        )
        described = (
            await admin.transactions.describe(
                [one.transactional_id for one in listed], timeout_ms=OFFSETS_TIMEOUT_MS
            )
        ).successes
        is_told = len(described) == len(listed)
    except BarnabasError:
        described, is_told = {}, False
    by_producer = {one.producer_id: one for one in described.values()}
    found = []
    for place, state in oldest.items():
        known = by_producer.get(state.producer_id)
        is_open = known is not None and place in known.partitions
        started_at_ms = known.started_at_ms if known is not None and is_open else None
        found.append(
            OpenTransaction(
                place=place,
                start_offset=state.transaction_start_offset or 0,
                producer_id=state.producer_id,
                transactional_id=known.transactional_id if known is not None else None,
                since_ms=started_at_ms or state.last_timestamp_ms,
                is_hanging=is_told and not is_open,
            )
        )
    return found

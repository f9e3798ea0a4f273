"""Groups and how far behind they are, read from the brokers without Spark."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from barnabas_client.errors import BarnabasError, NotFoundError
from barnabas_pipelines.errors import TopicGoneError
from barnabas_pipelines.jobs.cluster_facts import ClusterFacts
from barnabas_pipelines.lag.findings import GroupLag, PartitionLag
from barnabas_protocol.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas_client.admin import Admin, GroupListing

_TYPES: Final = ("Classic", "Consumer", "Unknown")


class GroupReading(ClusterFacts):
    """Reads topics and groups from the brokers that a job's settings name."""

    def topic_names(self) -> tuple[str, ...]:
        """All topics but those of the brokers' own. Raises: UnreachableError."""
        return tuple(one.name for one in self._run(lambda admin: admin.topics.list()))

    def group_lags(
        self, wanted: Collection[str], topics: Collection[str], now_ms: int
    ) -> tuple[GroupLag, ...]:
        """The groups named, or all that have committed offsets; of certain topics if any are named.

        Raises: TopicGoneError for a group that is named and not there; UnreachableError.
        """
        return self._run(lambda admin: _group_lags(admin, wanted, topics, now_ms))


async def _group_lags(
    admin: Admin, wanted: Collection[str], topics: Collection[str], now_ms: int
) -> tuple[GroupLag, ...]:
    listed = {
        one.group_id: one
        for one in await admin.groups.list()
        if one.type.value in _TYPES and one.protocol_type in ("consumer", "")
    }
    for name in wanted:
        if name not in listed:
            raise TopicGoneError(f"there is no consumer group {name}")
    names = [name for name in listed if not wanted or name in wanted]
    if not names:
        return ()
    committed = (await admin.group_offsets.list(names)).unwrap()
    by_group = {
        name: {
            place: found.offset
            for place, found in offsets.items()
            if found is not None and (not topics or place.topic in topics)
        }
        for name, offsets in committed.items()
    }
    places = {place for offsets in by_group.values() for place in offsets}
    limits = await _limits(admin, places)
    members = await _member_counts(admin, names)
    found = [
        _group(listed[name], members.get(name, 0), offsets, limits)
        for name, offsets in by_group.items()
        if offsets
    ]
    return tuple([await _with_ages(admin, group, now_ms) for group in found])


async def _limits(
    admin: Admin, places: Collection[TopicPartition]
) -> dict[TopicPartition, tuple[int, int]]:
    """Start and end of the partitions that exist."""
    from barnabas_client.admin import OffsetSpec

    both = []
    for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST):
        outcomes = await admin.partitions.list_offsets(dict.fromkeys(places, spec))
        for error in outcomes.errors.values():
            if not isinstance(error, NotFoundError):
                raise error
        both.append(outcomes.successes)
    starts, ends = both
    return {
        place: (starts[place].offset or 0, ends[place].offset or 0)
        for place in places
        if place in starts and place in ends
    }


async def _member_counts(admin: Admin, names: Collection[str]) -> dict[str, int]:
    described = await admin.groups.describe(names)
    return {name: len(group.members) for name, group in described.successes.items()}


def _group(
    listing: GroupListing,
    member_count: int,
    offsets: Mapping[TopicPartition, int],
    limits: Mapping[TopicPartition, tuple[int, int]],
) -> GroupLag:
    partitions = tuple(
        PartitionLag(
            topic=place.topic,
            partition=place.partition,
            committed=committed,
            start=limits[place][0],
            end=limits[place][1],
        )
        for place, committed in sorted(offsets.items())
        if place in limits
    )
    gone = sorted({place.topic for place in offsets if place not in limits})
    return GroupLag(
        group_id=listing.group_id,
        state=str(listing.state.value),
        member_count=member_count,
        partitions=partitions,
        gone=tuple(gone),
    )


async def _with_ages(admin: Admin, group: GroupLag, now_ms: int) -> GroupLag:
    """The group with the age of the oldest unread record of each partition."""
    unread = {
        TopicPartition(one.topic, one.partition): max(one.committed, one.start)
        for one in group.partitions
        if one.lag
    }
    if not unread:
        return group
    try:
        times = (await admin.partitions.record_timestamps(unread)).successes
    except BarnabasError:
        # The lag in records stands, where times are not known.
        return group

    def aged(one: PartitionLag) -> PartitionLag:
        at_ms = times.get(TopicPartition(one.topic, one.partition)) if one.lag else None
        return one if at_ms is None else replace(one, behind_ms=max(now_ms - at_ms, 0))

    return replace(group, partitions=tuple(aged(one) for one in group.partitions))

"""Which partitions a reset is about, and where each of them goes. Pure.

Not here: whether it may be carried out now (`group_plan`).

Invariant: an offset that is outside of the log becomes the nearest end of it, because a consumer
would not find anything there.
"""

from __future__ import annotations

from collections.abc import Iterator

from barnabas_operator.group_spec import ResetRequest, ResetTarget, TopicSelection
from barnabas_operator.reconcile.group.group_state import (
    MaybeOffsets,
    ObservedGroup,
    ObservedGroups,
)
from barnabas_protocol.ids import TopicPartition

# What is kept in the status of one resource must stay far below what an object may be.
PARTITIONS_MAX = 5000


class ResetError(Exception):
    """The reset cannot be meant: it names what does not exist, or nothing."""


class NotKnownYetError(Exception):
    """Where the reset goes cannot be told now, but may be soon."""


def chosen_partitions(
    request: ResetRequest, group: ObservedGroup, observed: ObservedGroups
) -> tuple[TopicPartition, ...]:
    """The partitions that the reset is about, in order. Raises: ResetError."""
    if request.topics:
        chosen = tuple(
            sorted(place for topic in request.topics for place in _of_topic(topic, observed))
        )
    else:
        chosen = tuple(
            sorted(place for place in group.committed if place.topic in observed.partition_counts)
        )
        if not chosen:
            raise ResetError(
                f"the group '{group.group_id}' has no committed offsets: name the topics"
            )
    if len(chosen) > PARTITIONS_MAX:
        raise ResetError(
            f"{len(chosen)} partitions are too many for one reset, which may be about"
            f" {PARTITIONS_MAX}: name some of the topics"
        )
    return chosen


def reset_offsets(
    request: ResetRequest, group: ObservedGroup, observed: ObservedGroups
) -> tuple[MaybeOffsets, MaybeOffsets]:
    """The offsets before and after the reset, of the same partitions.

    Raises: ResetError, NotKnownYetError.
    """
    chosen = chosen_partitions(request, group, observed)
    if request.target is ResetTarget.SHIFT_BY:
        chosen = tuple(place for place in chosen if place in group.committed)
        if not chosen:
            raise ResetError("nothing is committed for these topics, so there is nothing to shift")
    after = {place: _target(request, place, group, observed) for place in chosen}
    return {place: group.committed.get(place) for place in chosen}, after


def _of_topic(topic: TopicSelection, observed: ObservedGroups) -> Iterator[TopicPartition]:
    count = observed.partition_counts.get(topic.name)
    if count is None:
        raise ResetError(f"there is no topic '{topic.name}'")
    for partition in topic.partitions or range(count):
        if partition >= count:
            last = f"its last one is {count - 1}"
            raise ResetError(f"the topic '{topic.name}' has no partition {partition}: {last}")
        yield TopicPartition(topic.name, partition)


def _target(
    request: ResetRequest, place: TopicPartition, group: ObservedGroup, observed: ObservedGroups
) -> int:
    ends = observed.ends.get(place)
    if ends is None:
        raise NotKnownYetError(f"no leader tells the offsets of {place.topic}-{place.partition}")
    match request.target:
        case ResetTarget.EARLIEST:
            wanted = ends.start
        case ResetTarget.LATEST:
            wanted = ends.end
        case ResetTarget.OFFSET:
            wanted = request.offset or 0
        case ResetTarget.SHIFT_BY:
            wanted = group.committed[place] + (request.shift_by or 0)
        case ResetTarget.TIMESTAMP:
            found = observed.by_timestamp.get((place, request.timestamp_ms or 0))
            if found is None:
                raise NotKnownYetError(
                    f"no leader tells the offset of that moment in {place.topic}-{place.partition}"
                )
            wanted = found
    return min(max(wanted, ends.start), ends.end)

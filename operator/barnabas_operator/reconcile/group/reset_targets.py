"""Which partitions a reset is about, and where each of them goes. Pure.

Not here: whether it may be carried out now (`group_plan`), the arithmetic
(`barnabas_client.cluster.offset_ranges`).

Invariant: an offset that is outside of the log becomes the nearest end of it, because a consumer
would not find anything there.
"""

from __future__ import annotations

from collections.abc import Iterator

from barnabas_client.cluster import offset_ranges
from barnabas_operator.group_spec import ResetRequest, ResetTarget, TopicSelection
from barnabas_operator.reconcile.group.group_state import (
    MaybeOffsets,
    ObservedGroup,
    ObservedGroups,
)
from barnabas_protocol.ids import TopicPartition

# What is kept in the status of one resource must stay far below what an object may be.
PARTITIONS_MAX = 5000


_OFFSET_TARGETS = {
    ResetTarget.EARLIEST: offset_ranges.ResetTarget.EARLIEST,
    ResetTarget.LATEST: offset_ranges.ResetTarget.LATEST,
    ResetTarget.OFFSET: offset_ranges.ResetTarget.OFFSET,
    ResetTarget.SHIFT_BY: offset_ranges.ResetTarget.SHIFT_BY,
    ResetTarget.TIMESTAMP: offset_ranges.ResetTarget.LOOKED_UP,
}


class ResetError(Exception):
    """The reset is invalid: it names what does not exist, or nothing."""


class NotKnownYetError(Exception):
    """Where the reset goes cannot be told now, but may be soon."""


def chosen_partitions(
    request: ResetRequest, group: ObservedGroup, observed: ObservedGroups
) -> tuple[TopicPartition, ...]:
    """The partitions that the reset is about, in order. Raises: ResetError."""
    if request.topics:
        chosen = tuple(
            sorted(
                topic_partition
                for topic in request.topics
                for topic_partition in _of_topic(topic, observed)
            )
        )
    else:
        chosen = tuple(
            sorted(
                topic_partition
                for topic_partition in group.committed
                if topic_partition.topic in observed.partition_counts
            )
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
        chosen = tuple(
            topic_partition for topic_partition in chosen if topic_partition in group.committed
        )
        if not chosen:
            raise ResetError("nothing is committed for these topics, so there is nothing to shift")
    after = {
        topic_partition: _target(request, topic_partition, group, observed)
        for topic_partition in chosen
    }
    return {
        topic_partition: group.committed.get(topic_partition) for topic_partition in chosen
    }, after


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
    request: ResetRequest,
    topic_partition: TopicPartition,
    group: ObservedGroup,
    observed: ObservedGroups,
) -> int:
    held = observed.ends.get(topic_partition)
    if held is None:
        raise NotKnownYetError(
            f"no leader tells the offsets of {topic_partition.topic}-{topic_partition.partition}"
        )
    value = request.offset if request.target is ResetTarget.OFFSET else request.shift_by
    if request.target is ResetTarget.TIMESTAMP:
        value = observed.by_timestamp.get((topic_partition, request.timestamp_ms or 0))
        if value is None:
            raise NotKnownYetError(
                "no leader tells the offset of that moment in"
                f" {topic_partition.topic}-{topic_partition.partition}"
            )
    target = _OFFSET_TARGETS[request.target]
    committed = group.committed.get(topic_partition)
    return offset_ranges.reset_offset(target, held, committed=committed, value=value).offset

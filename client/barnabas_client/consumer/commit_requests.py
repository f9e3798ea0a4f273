"""Builds OffsetCommit and OffsetFetch requests of any version, and reads their responses.

Pure. Not here: sending and repeating them (`commits.py`).

Source: KIP-447 (require_stable), KIP-709 (fetch for several groups), KIP-848 (member epochs).
Topic ids instead of names: OffsetCommit and OffsetFetch 10.
Invariants: every partition of the request has a result, or an error is raised.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from barnabas_client.cluster.metadata import ClusterMetadata
from barnabas_client.cluster.offsets import ConsumerGroupMetadata, OffsetAndMetadata
from barnabas_client.errors import ClientBrokenError, known_code
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import ZERO_UUID, TopicPartition, Uuid
from barnabas_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from barnabas_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)

TOPIC_IDS_SINCE: Final = 10
GROUPS_SINCE: Final = 8
# What a version without topic ids goes up to.
NAMES_UNTIL: Final = TOPIC_IDS_SINCE - 1

COORDINATOR_GONE: Final = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
)
MEMBERSHIP_OVER: Final = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.REBALANCE_IN_PROGRESS,
)
TOPICS_UNKNOWN: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedOffsets:
    """A response to OffsetFetch: the group's error, then each partition's offset or error."""

    group_error: ErrorCode
    offsets: Mapping[TopicPartition, OffsetAndMetadata | None]
    errors: Mapping[TopicPartition, ErrorCode]


def topic_ids(cluster: ClusterMetadata, topics: Iterable[str]) -> dict[str, Uuid] | None:
    """The ids of the topics; None unless all are known."""
    ids = {}
    for name in topics:
        topic = cluster.topics.get(name)
        if topic is None or topic.topic_id == ZERO_UUID:
            return None
        ids[name] = topic.topic_id
    return ids


def commit_request(
    member: ConsumerGroupMetadata,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    ids: Mapping[str, Uuid],
) -> OffsetCommitRequest:
    """One request for all offsets; topics that have no id in `ids` go by name only."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, partition), offset in offsets.items():
        topics.setdefault(topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=offset.offset,
                committed_leader_epoch=offset.leader_epoch,
                committed_metadata=offset.metadata,
            )
        )
    return OffsetCommitRequest(
        group_id=member.group_id,
        generation_id_or_member_epoch=member.generation_id,
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        topics=[
            OffsetCommitRequestTopic(
                name=topic, topic_id=ids.get(topic, ZERO_UUID), partitions=partitions
            )
            for topic, partitions in topics.items()
        ],
    )


def commit_errors(
    response: OffsetCommitResponse,
    offsets: Iterable[TopicPartition],
    names: Mapping[Uuid, str],
) -> dict[TopicPartition, ErrorCode]:
    """The error of each partition that was committed; NONE for success."""
    errors = {}
    for topic in response.topics:
        name = topic.name or names.get(topic.topic_id, "")
        for partition in topic.partitions:
            code = known_code(partition.error_code)
            errors[TopicPartition(name, partition.partition_index)] = code
    for partition_ in offsets:
        if partition_ not in errors:
            raise ClientBrokenError(f"the response to a commit lacks {partition_}")
    return errors


def fetch_request(
    member: ConsumerGroupMetadata,
    partitions: Iterable[TopicPartition],
    ids: Mapping[str, Uuid],
    version: int,
) -> OffsetFetchRequest:
    """OffsetFetch, which waits for transactions that may still change the offsets."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    if version < GROUPS_SINCE:
        return OffsetFetchRequest(
            group_id=member.group_id,
            topics=[
                OffsetFetchRequestTopic(name=topic, partition_indexes=numbers)
                for topic, numbers in by_topic.items()
            ],
            require_stable=True,
        )
    group = OffsetFetchRequestGroup(
        group_id=member.group_id,
        member_id=member.member_id or None,
        member_epoch=member.generation_id,
        topics=[
            OffsetFetchRequestTopics(
                name=topic, topic_id=ids.get(topic, ZERO_UUID), partition_indexes=numbers
            )
            for topic, numbers in by_topic.items()
        ],
    )
    return OffsetFetchRequest(groups=[group], require_stable=True)


def fetched_offsets(
    response: OffsetFetchResponse,
    group_id: str,
    partitions: Iterable[TopicPartition],
    names: Mapping[Uuid, str],
) -> FetchedOffsets:
    """The group's part of the response; an offset of -1 is none."""
    offsets: dict[TopicPartition, OffsetAndMetadata | None] = {}
    errors: dict[TopicPartition, ErrorCode] = {}
    group_error = known_code(response.error_code)
    found: list[tuple[str, int, OffsetFetchResponsePartition | OffsetFetchResponsePartitions]] = [
        (t.name, p.partition_index, p) for t in response.topics for p in t.partitions
    ]
    for group in response.groups:
        if group.group_id == group_id:
            group_error = known_code(group.error_code)
            found += [
                (t.name or names.get(t.topic_id, ""), p.partition_index, p)
                for t in group.topics
                for p in t.partitions
            ]
    for topic, number, row in found:
        partition = TopicPartition(topic, number)
        code = known_code(row.error_code)
        if code is not ErrorCode.NONE:
            errors[partition] = code
        elif row.committed_offset < 0:
            offsets[partition] = None
        else:
            offsets[partition] = OffsetAndMetadata(
                row.committed_offset, row.committed_leader_epoch, row.metadata or ""
            )
    if group_error is ErrorCode.NONE:
        for partition in partitions:
            if partition not in offsets and partition not in errors:
                raise ClientBrokenError(f"the response to an offset fetch lacks {partition}")
    return FetchedOffsets(group_error=group_error, offsets=offsets, errors=errors)

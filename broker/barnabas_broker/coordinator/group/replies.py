"""Responses of the group coordinator in the form that the version of a request has.

Pure. The coordinator itself knows one form: the newest. Source: the message definitions.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.describe_groups import DescribedGroup
from barnabas_protocol.messages.join_group import JoinGroupResponse
from barnabas_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from barnabas_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from barnabas_protocol.messages.sync_group import SyncGroupResponse
from barnabas_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

FetchedGroup = OffsetFetchResponseGroup

JOIN_NULL_PROTOCOL_SINCE = 7
FETCH_GROUPS_SINCE = 8
FETCH_GROUP_ERROR_SINCE = 2
DESCRIBE_NOT_FOUND_SINCE = 6
LOADING_IN_TRANSACTION_SINCE = 2


def fit_join(response: JoinGroupResponse, version: int) -> JoinGroupResponse:
    """Return the response with an empty protocol name where null is not known yet."""
    if version < JOIN_NULL_PROTOCOL_SINCE and response.protocol_name is None:
        response.protocol_name = ""
    return response


def fit_sync(response: SyncGroupResponse) -> SyncGroupResponse:
    """Return the response without 14, which clients do not expect from a sync.

    While the coordinator loads, the rebalance the sync belongs to is lost: the member joins again.
    """
    if response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        response.error_code = ErrorCode.REBALANCE_IN_PROGRESS
    return response


def commit_error(request: OffsetCommitRequest, code: ErrorCode) -> OffsetCommitResponse:
    """Return the response to a commit that failed as a whole: the error for every partition."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=code
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def txn_commit_error(
    request: TxnOffsetCommitRequest, code: ErrorCode, version: int
) -> TxnOffsetCommitResponse:
    """Return the response to a commit in a transaction that failed as a whole."""
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < LOADING_IN_TRANSACTION_SINCE:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=code
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def fetched_groups(request: OffsetFetchRequest, version: int) -> list[OffsetFetchRequestGroup]:
    """Return the groups of a request of any version in the newest form."""
    if version >= FETCH_GROUPS_SINCE:
        return request.groups
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return [OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)]


def fetch_error(group: OffsetFetchRequestGroup, code: ErrorCode) -> FetchedGroup:
    """Return the result for a group that failed as a whole.

    The partitions are named with the error, as versions without an error for the group need it.
    """
    topics = [
        OffsetFetchResponseTopics(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                OffsetFetchResponsePartitions(
                    partition_index=index, committed_offset=-1, metadata="", error_code=code
                )
                for index in topic.partition_indexes
            ],
        )
        for topic in group.topics or ()
    ]
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics, error_code=code)


def fit_fetch(groups: Sequence[FetchedGroup], version: int) -> OffsetFetchResponse:
    """Return the groups' results in the form of the version."""
    if version >= FETCH_GROUPS_SINCE:
        for group in groups:
            if group.error_code:
                group.topics = []
        return OffsetFetchResponse(groups=list(groups))
    (group,) = groups
    names_partitions = not group.error_code or version < FETCH_GROUP_ERROR_SINCE
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in group.topics
            if names_partitions
        ],
    )


def dead_group(group_id: str, version: int, reason: str) -> DescribedGroup:
    """Return the description of what is no classic group."""
    if version < DESCRIBE_NOT_FOUND_SINCE:
        return DescribedGroup(group_id=group_id, group_state="Dead")
    return DescribedGroup(
        group_id=group_id,
        group_state="Dead",
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=reason,
    )

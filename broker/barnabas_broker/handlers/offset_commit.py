"""OffsetCommit (8), versions 2 to 9: store the offsets of a group.

v5: no retention time. v6: leader epochs. v7: static members. v9: KIP-848 member epochs. Source:
GRP-19, OFS-5 to OFS-7.
"""

from collections.abc import Coroutine
from typing import Any

from barnabas_broker.handlers.authorization import parted, require
from barnabas_broker.handlers.group_context import group_context
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

RETENTION_MS_MAX = 100 * 366 * 24 * 3_600_000
"""A century: what is to be kept longer is kept so long, and its time is still a number."""


def handle(
    services: Services, in_flight: InFlightRequest, request: OffsetCommitRequest
) -> Coroutine[Any, Any, OffsetCommitResponse]:
    """Have the coordinator of the group store the offsets."""
    require(services, in_flight, AclOperation.READ, AclResourceType.GROUP, request.group_id)
    request.retention_time_ms = min(request.retention_time_ms, RETENTION_MS_MAX)
    if services.authorizer is None:
        return services.groups.offset_commit(request, group_context(in_flight))
    return _commit_readable(services, in_flight, request)


async def _commit_readable(
    services: Services, in_flight: InFlightRequest, request: OffsetCommitRequest
) -> OffsetCommitResponse:
    """Store the offsets of the topics that the client may read."""
    request.topics, refused = await parted(
        services,
        in_flight,
        AclOperation.READ,
        AclResourceType.TOPIC,
        request.topics,
        lambda topic: topic.name,
    )
    response = failed(
        OffsetCommitRequest(topics=refused), KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    )
    if request.topics or not refused:
        committed = await services.groups.offset_commit(request, group_context(in_flight))
        response.topics[:0] = committed.topics
    return response


def failed(request: OffsetCommitRequest, error: KafkaError) -> OffsetCommitResponse:
    """The same error for every partition."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=error.code
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )

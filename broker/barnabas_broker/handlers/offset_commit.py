"""OffsetCommit (8), versions 2 to 9: store the offsets of a group.

v5: no retention time. v6: leader epochs. v7: static members. v9: KIP-848 member epochs. Source:
GRP-19, OFS-5 to OFS-7.
"""

from collections.abc import Coroutine
from typing import Any

from barnabas_broker.handlers.group_context import group_context
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.errors import KafkaError
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
    request.retention_time_ms = min(request.retention_time_ms, RETENTION_MS_MAX)
    return services.groups.offset_commit(request, group_context(in_flight))


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

"""OffsetDelete (47), versions 0: forget committed offsets of a group. Source: OFS-10."""

from barnabas_broker.handlers.authorization import parted, require
from barnabas_broker.handlers.group_context import group_context
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


async def handle(
    services: Services, in_flight: InFlightRequest, request: OffsetDeleteRequest
) -> OffsetDeleteResponse:
    """Ask the coordinator of the group."""
    require(services, in_flight, AclOperation.DELETE, AclResourceType.GROUP, request.group_id)
    request.topics, refused = await parted(
        services,
        in_flight,
        AclOperation.READ,
        AclResourceType.TOPIC,
        request.topics,
        lambda topic: topic.name,
    )
    response = await services.groups.offset_delete(request, group_context(in_flight))
    if response.error_code == ErrorCode.NONE:
        response.topics += map(_refused, refused)
    return response


def _refused(topic: OffsetDeleteRequestTopic) -> OffsetDeleteResponseTopic:
    return OffsetDeleteResponseTopic(
        name=topic.name,
        partitions=[
            OffsetDeleteResponsePartition(
                partition_index=partition.partition_index,
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            )
            for partition in topic.partitions
        ],
    )


def failed(request: OffsetDeleteRequest, error: KafkaError) -> OffsetDeleteResponse:
    """The error alone."""
    return OffsetDeleteResponse(error_code=error.code)

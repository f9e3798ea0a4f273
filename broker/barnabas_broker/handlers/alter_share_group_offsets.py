"""AlterShareGroupOffsets (91), version 0: have a share group without members begin elsewhere.

Source: SHR-1, SHR-32.
"""

from barnabas_broker.handlers.authorization import TOPIC_REFUSED, parted, require
from barnabas_broker.handlers.group_context import group_context
from barnabas_broker.handlers.services import Services
from barnabas_broker.handlers.share_version import check_share_version
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)


async def handle(
    services: Services, in_flight: InFlightRequest, request: AlterShareGroupOffsetsRequest
) -> AlterShareGroupOffsetsResponse:
    """Ask the coordinator of the group."""
    check_share_version(services)
    require(services, in_flight, AclOperation.READ, AclResourceType.GROUP, request.group_id)
    request.topics, refused = await parted(
        services,
        in_flight,
        AclOperation.READ,
        AclResourceType.TOPIC,
        request.topics,
        lambda topic: topic.topic_name,
    )
    if refused and not request.topics:
        return AlterShareGroupOffsetsResponse(responses=list(map(_refused, refused)))
    response = await services.groups.share.alter_offsets(request, group_context(in_flight))
    if response.error_code == ErrorCode.NONE:
        response.responses += map(_refused, refused)
    return response


def _refused(topic: AlterShareGroupOffsetsRequestTopic) -> AlterShareGroupOffsetsResponseTopic:
    return AlterShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        partitions=[
            AlterShareGroupOffsetsResponsePartition(
                partition_index=partition.partition_index,
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                error_message=TOPIC_REFUSED,
            )
            for partition in topic.partitions
        ],
    )


def failed(
    request: AlterShareGroupOffsetsRequest, error: KafkaError
) -> AlterShareGroupOffsetsResponse:
    """The error alone."""
    return AlterShareGroupOffsetsResponse(error_code=error.code, error_message=error.message)

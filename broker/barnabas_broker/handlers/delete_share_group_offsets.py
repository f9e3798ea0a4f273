"""DeleteShareGroupOffsets (92), version 0: forget where a share group without members begins.

Source: SHR-1, SHR-32.
"""

from barnabas_broker.handlers.authorization import TOPIC_REFUSED, parted, require
from barnabas_broker.handlers.services import Services
from barnabas_broker.handlers.share_version import check_share_version
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)


async def handle(
    services: Services, in_flight: InFlightRequest, request: DeleteShareGroupOffsetsRequest
) -> DeleteShareGroupOffsetsResponse:
    """Ask the coordinator of the group."""
    check_share_version(services)
    require(services, in_flight, AclOperation.DELETE, AclResourceType.GROUP, request.group_id)
    request.topics, refused = await parted(
        services,
        in_flight,
        AclOperation.READ,
        AclResourceType.TOPIC,
        request.topics,
        lambda topic: topic.topic_name,
    )
    response = await services.groups.share.delete_offsets(request)
    if response.error_code == ErrorCode.NONE:
        response.responses += map(_refused, refused)
    return response


def _refused(topic: DeleteShareGroupOffsetsRequestTopic) -> DeleteShareGroupOffsetsResponseTopic:
    return DeleteShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        error_message=TOPIC_REFUSED,
    )


def failed(
    request: DeleteShareGroupOffsetsRequest, error: KafkaError
) -> DeleteShareGroupOffsetsResponse:
    """The error alone."""
    return DeleteShareGroupOffsetsResponse(error_code=error.code, error_message=error.message)

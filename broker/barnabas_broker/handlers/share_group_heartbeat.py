"""ShareGroupHeartbeat (76), version 1: everything a member of a share group does.

Version 0 was early access and is not served. Source: SHR-1, SHR-28.
"""

from barnabas_broker.handlers.authorization import require
from barnabas_broker.handlers.group_context import group_context
from barnabas_broker.handlers.group_topics import require_topics
from barnabas_broker.handlers.services import Services
from barnabas_broker.handlers.share_version import check_share_version
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.errors import KafkaError
from barnabas_protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)


async def handle(
    services: Services, in_flight: InFlightRequest, request: ShareGroupHeartbeatRequest
) -> ShareGroupHeartbeatResponse:
    """Ask the coordinator of the group."""
    check_share_version(services)
    require(services, in_flight, AclOperation.READ, AclResourceType.GROUP, request.group_id)
    await require_topics(services, in_flight, request.subscribed_topic_names)
    return await services.groups.share.heartbeat(request, group_context(in_flight))


def failed(request: ShareGroupHeartbeatRequest, error: KafkaError) -> ShareGroupHeartbeatResponse:
    """The error alone."""
    return ShareGroupHeartbeatResponse(error_code=error.code, error_message=error.message)

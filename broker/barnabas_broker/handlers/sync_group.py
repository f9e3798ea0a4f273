"""SyncGroup (14), versions 0 to 5: the leader brings the assignment, every member takes its part.

v3: static members. v5: protocol type and name are checked. Source: GRP-10 to GRP-13."""

from barnabas_broker.handlers.authorization import require
from barnabas_broker.handlers.group_context import group_context
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

PROTOCOL_SINCE = 5


async def handle(
    services: Services, in_flight: InFlightRequest, request: SyncGroupRequest
) -> SyncGroupResponse:
    """Ask the coordinator of the group.

    From version 5 on a member must name its protocol.
    """
    is_silent = request.protocol_type is None or request.protocol_name is None
    if in_flight.api_version >= PROTOCOL_SINCE and is_silent:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    require(services, in_flight, AclOperation.READ, AclResourceType.GROUP, request.group_id)
    return await services.groups.sync_group(request, group_context(in_flight))


def failed(request: SyncGroupRequest, error: KafkaError) -> SyncGroupResponse:
    """The error alone."""
    return SyncGroupResponse(error_code=error.code)

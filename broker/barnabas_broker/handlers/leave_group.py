"""LeaveGroup (13), versions 0 to 5: members leave. v3: several at once. Source: GRP-17."""

from barnabas_broker.handlers.authorization import require
from barnabas_broker.handlers.group_context import group_context
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.errors import KafkaError
from barnabas_protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse


async def handle(
    services: Services, in_flight: InFlightRequest, request: LeaveGroupRequest
) -> LeaveGroupResponse:
    """Ask the coordinator of the group."""
    require(services, in_flight, AclOperation.READ, AclResourceType.GROUP, request.group_id)
    return await services.groups.leave_group(request, group_context(in_flight))


def failed(request: LeaveGroupRequest, error: KafkaError) -> LeaveGroupResponse:
    """The error alone."""
    return LeaveGroupResponse(error_code=error.code)

"""JoinGroup (11), versions 0 to 9: become or stay a member of a classic group.

v4: a new member gets its id first (79). v5: static members. v9: SkipAssignment. Source: GRP-2 to
GRP-9.
"""

from barnabas_broker.handlers.authorization import require
from barnabas_broker.handlers.group_context import group_context
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.errors import KafkaError
from barnabas_protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse


async def handle(
    services: Services, in_flight: InFlightRequest, request: JoinGroupRequest
) -> JoinGroupResponse:
    """Ask the coordinator of the group."""
    require(services, in_flight, AclOperation.READ, AclResourceType.GROUP, request.group_id)
    return await services.groups.join_group(request, group_context(in_flight))


def failed(request: JoinGroupRequest, error: KafkaError) -> JoinGroupResponse:
    """The error alone."""
    return JoinGroupResponse(error_code=error.code, member_id=request.member_id)

"""Heartbeat (12), versions 0 to 4: a member is alive, and learns of a rebalance.

Source: GRP-14 to GRP-16.
"""

from barnabas_broker.handlers.authorization import require
from barnabas_broker.handlers.group_context import group_context
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.errors import KafkaError
from barnabas_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


async def handle(
    services: Services, in_flight: InFlightRequest, request: HeartbeatRequest
) -> HeartbeatResponse:
    """Ask the coordinator of the group."""
    require(services, in_flight, AclOperation.READ, AclResourceType.GROUP, request.group_id)
    return await services.groups.heartbeat(request, group_context(in_flight))


def failed(request: HeartbeatRequest, error: KafkaError) -> HeartbeatResponse:
    """The error alone."""
    return HeartbeatResponse(error_code=error.code)

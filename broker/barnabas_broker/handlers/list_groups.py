"""ListGroups (16), versions 0 to 5: the groups of this broker.

V4: state filter. v5: type filter. Source: GRP-21.
"""

from barnabas_broker.handlers.group_context import group_context
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.errors import KafkaError
from barnabas_protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse


async def handle(
    services: Services, in_flight: InFlightRequest, request: ListGroupsRequest
) -> ListGroupsResponse:
    """Ask the coordinator of the group."""
    return await services.groups.list_groups(request, group_context(in_flight))


def failed(request: ListGroupsRequest, error: KafkaError) -> ListGroupsResponse:
    """The error alone."""
    return ListGroupsResponse(error_code=error.code)

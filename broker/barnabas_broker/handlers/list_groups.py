"""ListGroups (16), versions 0 to 5: the groups of this broker.

V4: state filter. v5: type filter. Source: GRP-21.
"""

from barnabas_broker.handlers.authorization import may, may_cluster
from barnabas_broker.handlers.group_context import group_context
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.errors import KafkaError
from barnabas_protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse


async def handle(
    services: Services, in_flight: InFlightRequest, request: ListGroupsRequest
) -> ListGroupsResponse:
    """Ask the coordinator; who may not see the cluster sees the groups that it may."""
    response = await services.groups.list_groups(request, group_context(in_flight))
    if not may_cluster(services, in_flight, AclOperation.DESCRIBE, is_filter=True):
        response.groups = [
            group
            async for group in services.heavy_work.each(in_flight, response.groups)
            if may(
                services,
                in_flight,
                AclOperation.DESCRIBE,
                AclResourceType.GROUP,
                group.group_id,
                is_filter=True,
            )
        ]
    return response


def failed(request: ListGroupsRequest, error: KafkaError) -> ListGroupsResponse:
    """The error alone."""
    return ListGroupsResponse(error_code=error.code)

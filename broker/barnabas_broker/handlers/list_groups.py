"""ListGroups (16), versions 0 to 5: the groups of this broker.

V4: state filter. v5: type filter. Source: GRP-21.
"""

from functools import partial

from barnabas_broker.handlers.authorization import may, may_cluster
from barnabas_broker.handlers.group_context import group_context
from barnabas_broker.handlers.request_limits import encode_apart
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.errors import KafkaError
from barnabas_protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

LOOP_GROUPS_MAX = 500
"""So many are encoded in a millisecond."""


async def handle(
    services: Services, in_flight: InFlightRequest, request: ListGroupsRequest
) -> ListGroupsResponse | bytes:
    """Ask the coordinator; who may not see the cluster sees the groups that it may."""
    pause = partial(services.heavy_work.pause_of, in_flight)
    response = await services.groups.list_groups(request, group_context(in_flight), pause)
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
    if len(response.groups) <= LOOP_GROUPS_MAX:
        return response
    return await encode_apart(services.heavy_work, in_flight, response)


def failed(request: ListGroupsRequest, error: KafkaError) -> ListGroupsResponse:
    """The error alone."""
    return ListGroupsResponse(error_code=error.code)

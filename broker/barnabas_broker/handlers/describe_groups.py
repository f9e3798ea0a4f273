"""DescribeGroups (15), versions 0 to 6: state and members of groups.

V6: an unknown group is an error (69). Source: GRP-21.
"""

from barnabas_broker.handlers.group_context import group_context
from barnabas_broker.handlers.group_descriptions import add_operations, visible_groups
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)


async def handle(
    services: Services, in_flight: InFlightRequest, request: DescribeGroupsRequest
) -> DescribeGroupsResponse:
    """Ask the coordinator of the group."""
    request.groups, hidden = await visible_groups(services, in_flight, request.groups)
    response = await services.groups.describe_groups(request, group_context(in_flight))
    if request.include_authorized_operations:
        await add_operations(services, in_flight, response.groups)
    response.groups[:0] = [
        DescribedGroup(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, group_id=group)
        for group in hidden
    ]
    return response


def failed(request: DescribeGroupsRequest, error: KafkaError) -> DescribeGroupsResponse:
    """The same error for every group."""
    return DescribeGroupsResponse(
        groups=[
            DescribedGroup(error_code=error.code, error_message=error.message, group_id=group)
            for group in request.groups
        ]
    )

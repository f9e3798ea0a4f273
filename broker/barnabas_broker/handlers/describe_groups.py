"""DescribeGroups (15), versions 0 to 6: state and members of groups.

V6: an unknown group is an error (69). Source: GRP-21.
"""

from barnabas_broker.handlers.authorization import parted
from barnabas_broker.handlers.authorized_operations import authorized_operations
from barnabas_broker.handlers.group_context import group_context
from barnabas_broker.handlers.request_limits import each_once
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.acl import AclOperation, AclResourceType
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
    visible, hidden = parted(
        services,
        in_flight,
        AclOperation.DESCRIBE,
        AclResourceType.GROUP,
        each_once(request.groups, str),
        str,
    )
    request.groups = visible
    response = await services.groups.describe_groups(request, group_context(in_flight))
    if request.include_authorized_operations:
        for group in response.groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = authorized_operations(
                    services, in_flight, AclResourceType.GROUP, group.group_id
                )
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

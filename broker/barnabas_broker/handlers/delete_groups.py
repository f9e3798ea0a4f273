"""DeleteGroups (42), versions 0 to 2: delete empty groups and their offsets. Source: OFS-10."""

from barnabas_broker.handlers.authorization import parted
from barnabas_broker.handlers.group_context import group_context
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


async def handle(
    services: Services, in_flight: InFlightRequest, request: DeleteGroupsRequest
) -> DeleteGroupsResponse:
    """Ask the coordinator of the group."""
    request.groups_names, refused = await parted(
        services,
        in_flight,
        AclOperation.DELETE,
        AclResourceType.GROUP,
        list(dict.fromkeys(request.groups_names)),
        str,
    )
    response = await services.groups.delete_groups(request, group_context(in_flight))
    response.results += (
        DeletableGroupResult(group_id=group, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        for group in refused
    )
    return response


def failed(request: DeleteGroupsRequest, error: KafkaError) -> DeleteGroupsResponse:
    """The same error for every group."""
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id=group, error_code=error.code)
            for group in request.groups_names
        ]
    )

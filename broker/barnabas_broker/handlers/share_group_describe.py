"""ShareGroupDescribe (77), version 1: state, epochs and members of share groups.

Version 0 was early access and is not served. Source: SHR-1, SHR-28.
"""

from barnabas_broker.handlers.group_descriptions import (
    add_operations,
    unless_hidden,
    visible_groups,
)
from barnabas_broker.handlers.services import Services
from barnabas_broker.handlers.share_version import check_share_version
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)


async def handle(
    services: Services, in_flight: InFlightRequest, request: ShareGroupDescribeRequest
) -> ShareGroupDescribeResponse:
    """Ask the coordinator of the groups."""
    check_share_version(services)
    visible, hidden = await visible_groups(services, in_flight, request.group_ids)
    groups = await services.groups.share.describe(visible)
    if request.include_authorized_operations:
        await add_operations(services, in_flight, groups)
    return ShareGroupDescribeResponse(
        groups=[
            *(
                DescribedGroup(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, group_id=group_id)
                for group_id in hidden
            ),
            *[await _visible(services, in_flight, group) for group in groups],
        ]
    )


async def _visible(
    services: Services, in_flight: InFlightRequest, group: DescribedGroup
) -> DescribedGroup:
    """A group, or an error where one of its members has a topic that the client may not see."""
    names = {
        one.topic_name for member in group.members for one in member.assignment.topic_partitions
    }

    def refusal(code: ErrorCode, message: str) -> DescribedGroup:
        return DescribedGroup(error_code=code, error_message=message, group_id=group.group_id)

    return await unless_hidden(services, in_flight, group, names, refusal)


def failed(request: ShareGroupDescribeRequest, error: KafkaError) -> ShareGroupDescribeResponse:
    """The same error for every group."""
    return ShareGroupDescribeResponse(
        groups=[
            DescribedGroup(error_code=error.code, error_message=error.message, group_id=group_id)
            for group_id in request.group_ids
        ]
    )

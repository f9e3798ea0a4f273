"""ShareGroupDescribe (77), version 1: state, epochs and members of share groups.

Version 0 was early access and is not served. Source: SHR-1, SHR-28.
"""

from barnabas_broker.handlers.authorization import parted
from barnabas_broker.handlers.authorized_operations import authorized_operations
from barnabas_broker.handlers.group_topics import HIDDEN_TOPICS, sees_all
from barnabas_broker.handlers.request_limits import each_once
from barnabas_broker.handlers.services import Services
from barnabas_broker.handlers.share_version import check_share_version
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.acl import AclOperation, AclResourceType
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
    visible, hidden = parted(
        services,
        in_flight,
        AclOperation.DESCRIBE,
        AclResourceType.GROUP,
        each_once(request.group_ids, str),
        str,
    )
    groups = await services.groups.share.describe(visible)
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = authorized_operations(
                    services, in_flight, AclResourceType.GROUP, group.group_id
                )
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
    if await sees_all(services, in_flight, names):
        return group
    return DescribedGroup(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        error_message=HIDDEN_TOPICS,
        group_id=group.group_id,
    )


def failed(request: ShareGroupDescribeRequest, error: KafkaError) -> ShareGroupDescribeResponse:
    """The same error for every group."""
    return ShareGroupDescribeResponse(
        groups=[
            DescribedGroup(error_code=error.code, error_message=error.message, group_id=group_id)
            for group_id in request.group_ids
        ]
    )

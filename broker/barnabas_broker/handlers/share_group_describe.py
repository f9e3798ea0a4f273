"""ShareGroupDescribe (77), version 1: state, epochs and members of share groups.

Version 0 was early access and is not served. Source: SHR-1, SHR-28.
"""

from barnabas_broker.handlers.authorized_operations import GROUP_OPERATIONS
from barnabas_broker.handlers.request_limits import each_once
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
    request.group_ids = list(each_once(request.group_ids, str))
    groups = await services.groups.share.describe(request.group_ids)
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = GROUP_OPERATIONS
    return ShareGroupDescribeResponse(groups=groups)


def failed(request: ShareGroupDescribeRequest, error: KafkaError) -> ShareGroupDescribeResponse:
    """The same error for every group."""
    return ShareGroupDescribeResponse(
        groups=[
            DescribedGroup(error_code=error.code, error_message=error.message, group_id=group_id)
            for group_id in request.group_ids
        ]
    )

"""ConsumerGroupDescribe (69), versions 0 and 1: state, epochs, members and targets of groups.

v1: the protocol that each member speaks. Source: CG-13.
"""

from barnabas_broker.handlers.authorized_operations import GROUP_OPERATIONS
from barnabas_broker.handlers.group_context import check_group_version
from barnabas_broker.handlers.request_limits import each_once
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


async def handle(
    services: Services, in_flight: InFlightRequest, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    """Ask the coordinator of the groups."""
    check_group_version(services)
    request.group_ids = list(each_once(request.group_ids, str))
    groups = await services.groups.consumer_group_describe(request.group_ids)
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = GROUP_OPERATIONS
    return ConsumerGroupDescribeResponse(groups=groups)


def failed(
    request: ConsumerGroupDescribeRequest, error: KafkaError
) -> ConsumerGroupDescribeResponse:
    """The same error for every group."""
    return ConsumerGroupDescribeResponse(
        groups=[
            DescribedGroup(error_code=error.code, error_message=error.message, group_id=group_id)
            for group_id in request.group_ids
        ]
    )

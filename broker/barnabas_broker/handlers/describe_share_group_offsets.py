"""DescribeShareGroupOffsets (90), versions 0 and 1: where share groups begin in partitions.

V1: how far they are behind. Source: SHR-1, SHR-32.
"""

from barnabas_broker.handlers.request_limits import each_once
from barnabas_broker.handlers.services import Services
from barnabas_broker.handlers.share_version import check_share_version
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.errors import KafkaError
from barnabas_protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
)


async def handle(
    services: Services, in_flight: InFlightRequest, request: DescribeShareGroupOffsetsRequest
) -> DescribeShareGroupOffsetsResponse:
    """Ask the coordinator of the groups, one after the other."""
    check_share_version(services)
    return DescribeShareGroupOffsetsResponse(
        groups=[
            await services.groups.share.describe_offsets(group)
            for group in each_once(request.groups, lambda group: group.group_id)
        ]
    )


def failed(
    request: DescribeShareGroupOffsetsRequest, error: KafkaError
) -> DescribeShareGroupOffsetsResponse:
    """The same error for every group."""
    return DescribeShareGroupOffsetsResponse(
        groups=[
            DescribeShareGroupOffsetsResponseGroup(
                group_id=group.group_id, error_code=error.code, error_message=error.message
            )
            for group in request.groups
        ]
    )

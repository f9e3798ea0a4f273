"""OffsetFetch (9), versions 1 to 9: the committed offsets of groups.

v2: null means all topics. v5: leader epochs. v7: require stable. v8: several groups. v9: KIP-848
member epochs. Source: OFS-11.
"""

from barnabas_broker.handlers.group_context import group_context
from barnabas_broker.handlers.request_limits import each_once
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.errors import KafkaError
from barnabas_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)


async def handle(
    services: Services, in_flight: InFlightRequest, request: OffsetFetchRequest
) -> OffsetFetchResponse:
    """Ask the coordinator of the group."""
    request.groups = list(each_once(request.groups, lambda group: group.group_id))
    return await services.groups.offset_fetch(request, group_context(in_flight))


def failed(request: OffsetFetchRequest, error: KafkaError) -> OffsetFetchResponse:
    """The error of the whole request and, in new versions, of every group."""
    return OffsetFetchResponse(
        error_code=error.code,
        groups=[
            OffsetFetchResponseGroup(group_id=group.group_id, error_code=error.code)
            for group in request.groups
        ],
    )

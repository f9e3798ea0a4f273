"""OffsetDelete (47), versions 0: forget committed offsets of a group. Source: OFS-10."""

from barnabas_broker.handlers.group_context import group_context
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.errors import KafkaError
from barnabas_protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse


async def handle(
    services: Services, in_flight: InFlightRequest, request: OffsetDeleteRequest
) -> OffsetDeleteResponse:
    """Ask the coordinator of the group."""
    return await services.groups.offset_delete(request, group_context(in_flight))


def failed(request: OffsetDeleteRequest, error: KafkaError) -> OffsetDeleteResponse:
    """The error alone."""
    return OffsetDeleteResponse(error_code=error.code)

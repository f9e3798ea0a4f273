"""AllocateProducerIds (67), version 0: a block of ids for a broker; among brokers only.

Source: CTL-15, KIP-730.
"""

from barnabas_broker.controller.local import LocalController, failed
from barnabas_broker.handlers.broker_listener import require_broker
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)

__all__ = ["failed", "handle"]


async def handle(
    services: Services, in_flight: InFlightRequest, request: AllocateProducerIdsRequest
) -> AllocateProducerIdsResponse:
    """Give the next block."""
    require_broker(services, in_flight, request.broker_id)
    response: AllocateProducerIdsResponse = await LocalController(services.controller).answer(
        request
    )
    return response

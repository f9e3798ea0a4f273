"""UnregisterBroker (64), version 0: a broker is taken out of the cluster for good (KIP-631).

Advertised to clients, as on Kafka's brokers.
"""

from barnabas_broker.controller.local import LocalController, failed
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)

__all__ = ["failed", "handle"]


async def handle(
    services: Services, in_flight: InFlightRequest, request: UnregisterBrokerRequest
) -> UnregisterBrokerResponse:
    """Take it out, alive or not."""
    response: UnregisterBrokerResponse = await LocalController(services.controller).answer(request)
    return response

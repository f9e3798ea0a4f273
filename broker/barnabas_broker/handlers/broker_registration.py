"""BrokerRegistration (62), versions 0 to 4: a broker becomes part of the cluster (REG-1, REG-4).

Among brokers only. v1: migration from ZooKeeper, which there is not. v2: log directories. v3: the
broker epoch of the last clean stop. v4: features whose minimum is 0 may be listed.
"""

from barnabas_broker.controller.local import LocalController, failed
from barnabas_broker.handlers.broker_connection import BrokerConnection
from barnabas_broker.handlers.broker_listener import require_broker
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)

__all__ = ["failed", "handle"]


async def handle(
    services: Services, in_flight: InFlightRequest, request: BrokerRegistrationRequest
) -> BrokerRegistrationResponse:
    """Register the broker, fenced."""
    require_broker(services, in_flight, request.broker_id)
    with BrokerConnection(services.controller, request.broker_id, in_flight.session) as connection:
        response: BrokerRegistrationResponse = await LocalController(services.controller).answer(
            request, connection
        )
        return response

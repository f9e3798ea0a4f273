"""BrokerHeartbeat (63), versions 0 to 2: keeps a broker in the cluster (REG-5, REG-6).

Among brokers only. v1: log directories that have failed. v2: directories that shall get no more
replicas, which is not acted on.
"""

from barnabas_broker.controller.local import LocalController, failed
from barnabas_broker.handlers.broker_connection import BrokerConnection
from barnabas_broker.handlers.broker_listener import require_broker
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)

__all__ = ["failed", "handle"]


async def handle(
    services: Services, in_flight: InFlightRequest, request: BrokerHeartbeatRequest
) -> BrokerHeartbeatResponse:
    """Take note of it, and respond with the broker's state."""
    require_broker(services, in_flight, request.broker_id)
    with BrokerConnection(services.controller, request.broker_id, in_flight.session) as connection:
        response: BrokerHeartbeatResponse = await LocalController(services.controller).answer(
            request, connection
        )
        return response

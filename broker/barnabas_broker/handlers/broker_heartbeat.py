"""BrokerHeartbeat (63), versions 0 to 2: a broker lives, and says what it wants (REG-5, REG-6).

Among brokers only. v1: log directories that have failed. v2: directories that shall get no more
replicas, which is not acted on.
"""

from barnabas_broker.controller.local import LocalController, failed
from barnabas_broker.handlers.broker_connection import BrokerConnection
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import Exchange
from barnabas_protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)

__all__ = ["failed", "handle"]


async def handle(
    services: Services, exchange: Exchange, request: BrokerHeartbeatRequest
) -> BrokerHeartbeatResponse:
    """Take note of it, and answer what becomes of the broker."""
    with BrokerConnection(services.controller, request.broker_id, exchange.session) as connection:
        answer: BrokerHeartbeatResponse = await LocalController(services.controller).answer(
            request, connection
        )
        return answer

"""AssignReplicasToDirs (73), version 0: where a broker has its replicas; among brokers only.

Source: LOG-11, KIP-858.
"""

from barnabas_broker.controller.local import LocalController, failed
from barnabas_broker.handlers.broker_listener import require_broker
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)

__all__ = ["failed", "handle"]


async def handle(
    services: Services, in_flight: InFlightRequest, request: AssignReplicasToDirsRequest
) -> AssignReplicasToDirsResponse:
    """Take note of each directory."""
    require_broker(services, in_flight, request.broker_id)
    response: AssignReplicasToDirsResponse = await LocalController(services.controller).answer(
        request
    )
    return response

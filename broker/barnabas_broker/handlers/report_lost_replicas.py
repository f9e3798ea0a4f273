"""ReportLostReplicas (20005, between brokers), version 0: replicas that must not lead.

Source: `docs/formats/between-brokers.md`.
"""

from barnabas_broker.controller.local import LocalController, failed
from barnabas_broker.handlers.broker_listener import require_broker
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.messages.report_lost_replicas import (
    ReportLostReplicasRequest,
    ReportLostReplicasResponse,
)

__all__ = ["failed", "handle"]


async def handle(
    services: Services, in_flight: InFlightRequest, request: ReportLostReplicasRequest
) -> ReportLostReplicasResponse:
    """Take the replicas out of ISR and ELR."""
    require_broker(services, in_flight, request.broker_id)
    response: ReportLostReplicasResponse = await LocalController(services.controller).answer(
        request
    )
    return response

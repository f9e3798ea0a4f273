"""UpdateFeatures (57), versions 0 to 2: other levels for features, all or none (KIP-584).

v1: the kind of change in place of a boolean, and trials. v2: one error for all.
"""

from barnabas_broker.controller.local import LocalController, failed
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.messages.update_features import (
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

__all__ = ["failed", "handle"]


async def handle(
    services: Services, in_flight: InFlightRequest, request: UpdateFeaturesRequest
) -> UpdateFeaturesResponse:
    """Change the levels."""
    response: UpdateFeaturesResponse = await LocalController(services.controller).answer(request)
    return response

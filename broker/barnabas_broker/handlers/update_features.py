"""UpdateFeatures (57), versions 0 to 2: other levels for features, all or none (KIP-584).

v1: the kind of change in place of a boolean, and trials. v2: one error for all.
"""

from barnabas_broker.controller.local import LocalController, failed
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import Exchange
from barnabas_protocol.messages.update_features import (
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

__all__ = ["failed", "handle"]


async def handle(
    services: Services, exchange: Exchange, request: UpdateFeaturesRequest
) -> UpdateFeaturesResponse:
    """Change the levels."""
    answer: UpdateFeaturesResponse = await LocalController(services.controller).answer(request)
    return answer

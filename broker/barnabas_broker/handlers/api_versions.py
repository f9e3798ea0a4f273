"""ApiVersions (18), versions 0 to 4: what this broker serves.

Must work before anything else on a connection (KIP-511).

v3: the client's software name and version. v4: features whose minimum is 0 may be listed.
"""

import re

from barnabas_broker.controller import features
from barnabas_broker.handlers.services import Services
from barnabas_broker.handlers.table import ADVERTISED
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(
    services: Services, in_flight: InFlightRequest, request: ApiVersionsRequest
) -> ApiVersionsResponse:
    """List the served keys with their ranges."""
    if in_flight.api_version >= 3:
        name, version = request.client_software_name, request.client_software_version
        if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version)):
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        in_flight.session.client_software = (name, version)
    login = in_flight.session.login
    if login is not None:
        login.versions_sent()
    image = services.image
    return ApiVersionsResponse(
        supported_features=[
            SupportedFeatureKey(name=name, min_version=able.minimum, max_version=able.maximum)
            for name, able in features.SUPPORTED.items()
            if able.minimum > 0 or in_flight.api_version >= 4
        ],
        finalized_features_epoch=image.offset,
        finalized_features=[
            FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
            for name, level in features.finalized(image).items()
        ],
        api_keys=[
            ApiVersion(api_key=key, min_version=minimum, max_version=maximum)
            for key, (minimum, maximum) in ADVERTISED.items()
        ],
    )


def failed(request: ApiVersionsRequest, error: KafkaError) -> ApiVersionsResponse:
    """The error alone."""
    return ApiVersionsResponse(error_code=error.code)

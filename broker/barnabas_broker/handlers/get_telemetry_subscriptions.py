"""GetTelemetrySubscriptions (71), version 0: what a client is to push of its metrics (KIP-714).

A client without an instance id gets one, which it keeps for its life, at every broker (TEL-2).
"""

from barnabas_broker.config.client_metrics_settings import (
    CLIENT_ID,
    CLIENT_SOFTWARE_NAME,
    CLIENT_SOFTWARE_VERSION,
    CLIENT_SOURCE_ADDRESS,
    CLIENT_SOURCE_PORT,
)
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.errors import KafkaError
from barnabas_protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from barnabas_protocol.records.compression import Compression

# The one that is preferred first.
ACCEPTED_COMPRESSION = (
    Compression.ZSTD,
    Compression.LZ4,
    Compression.GZIP,
    Compression.SNAPPY,
)
ATTRIBUTE_CHARS_MAX = 256
"""Of what a client says of itself, which expressions are matched against."""


def handle(
    services: Services, in_flight: InFlightRequest, request: GetTelemetrySubscriptionsRequest
) -> GetTelemetrySubscriptionsResponse:
    """Say what to push, how often, and how."""
    metrics = services.client_metrics
    instance = metrics.get(request.client_instance_id, attributes_of(in_flight))
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance.id,
        subscription_id=instance.subscription_id,
        accepted_compression_types=[int(codec) for codec in ACCEPTED_COMPRESSION],
        push_interval_ms=instance.push_interval_ms,
        telemetry_max_bytes=metrics.bytes_max,
        delta_temporality=True,
        requested_metrics=list(instance.requested.metrics),
    )


def attributes_of(in_flight: InFlightRequest) -> dict[str, str]:
    """What subscriptions may match of the client that sent a request (TEL-1)."""
    session = in_flight.session
    attributes = {
        CLIENT_ID: in_flight.client_id or "",
        CLIENT_SOURCE_ADDRESS: session.host,
        CLIENT_SOURCE_PORT: session.peer.rpartition(":")[2],
    }
    if session.client_software is not None:
        attributes[CLIENT_SOFTWARE_NAME], attributes[CLIENT_SOFTWARE_VERSION] = (
            session.client_software
        )
    return {name: text[:ATTRIBUTE_CHARS_MAX] for name, text in attributes.items()}


def failed(
    request: GetTelemetrySubscriptionsRequest, error: KafkaError
) -> GetTelemetrySubscriptionsResponse:
    """The error alone."""
    return GetTelemetrySubscriptionsResponse(error_code=error.code)

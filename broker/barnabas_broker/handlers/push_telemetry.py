"""PushTelemetry (72), version 0: a client's metrics, to be shown at /metrics (KIP-714, TEL-4).

Small ones that are not compressed are read on the loop; others hold it up, and are in a thread.
Batches of producers are checked there as well and go before: where many wait, pushes are refused
as if they were too early, and clients come again after their interval.
"""

from barnabas_broker.handlers.get_telemetry_subscriptions import attributes_of
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_broker.telemetry.push_reader import Push, read_push
from barnabas_protocol.errors import ErrorCode, KafkaError, ParseError
from barnabas_protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from barnabas_protocol.records.compression import Compression, DecompressedTooLargeError

LOOP_BYTES_MAX = 1024
"""So many bytes hold some hundred fields."""
WAITING_MAX = 100
"""Requests that wait for the thread; a hostile push takes it for a tenth of a second."""
_CODECS = frozenset(Compression)


async def handle(
    services: Services, in_flight: InFlightRequest, request: PushTelemetryRequest
) -> PushTelemetryResponse:
    """Take the metrics, if it is time for them and they can be read."""
    metrics = services.client_metrics
    instance = metrics.begin_push(
        request.client_instance_id,
        attributes_of(in_flight),
        request.subscription_id,
        is_terminating=request.terminating,
    )
    try:
        push = await _read(services, in_flight, request, instance.requested.metrics)
    except KafkaError as error:
        metrics.fail_push(instance, error)
        raise
    metrics.end_push(instance, push, in_flight.session)
    return PushTelemetryResponse()


async def _read(
    services: Services,
    in_flight: InFlightRequest,
    request: PushTelemetryRequest,
    prefixes: tuple[str, ...],
) -> Push:
    """The points of a push. Raises: KafkaError 76, 87, 89, 118; ConnectionGoneError."""
    bytes_max = services.client_metrics.bytes_max
    codec, data = request.compression_type, request.metrics
    if codec not in _CODECS:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Unknown compression type [{codec}]"
        )
    if len(data) > bytes_max:
        raise _too_large(bytes_max)
    try:
        if codec == Compression.NONE and len(data) <= LOOP_BYTES_MAX:
            return read_push(codec, data, bytes_max, prefixes)
        heavy_work = services.heavy_work
        if heavy_work.waiting_count >= WAITING_MAX:
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The broker is busy")
        return await heavy_work.run(in_flight, read_push, codec, data, bytes_max, prefixes)
    except DecompressedTooLargeError:
        raise _too_large(bytes_max) from None
    except ParseError as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, str(error)) from None


def _too_large(bytes_max: int) -> KafkaError:
    return KafkaError(
        ErrorCode.TELEMETRY_TOO_LARGE,
        f"Telemetry is larger than the maximum allowed size [{bytes_max}]",
    )


def failed(request: PushTelemetryRequest, error: KafkaError) -> PushTelemetryResponse:
    """The error alone."""
    return PushTelemetryResponse(error_code=error.code)

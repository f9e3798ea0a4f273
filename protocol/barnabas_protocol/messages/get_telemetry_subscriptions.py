"""GetTelemetrySubscriptions (key 71): version 0, always flexible."""

from barnabas_protocol.schema import Message, array, boolean, int8, int16, int32, string, uuid


class GetTelemetrySubscriptionsRequest(Message, versions=(0, 0), flexible=0):
    """Request of GetTelemetrySubscriptions."""

    client_instance_id: bytes = uuid()


class GetTelemetrySubscriptionsResponse(Message, versions=(0, 0), flexible=0):
    """Response of GetTelemetrySubscriptions."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    client_instance_id: bytes = uuid()
    subscription_id: int = int32()
    accepted_compression_types: list[int] = array(int8)
    push_interval_ms: int = int32()
    telemetry_max_bytes: int = int32()
    delta_temporality: bool = boolean()
    requested_metrics: list[str] = array(string)

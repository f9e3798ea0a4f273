"""PushTelemetry (key 72): version 0, always flexible."""

from barnabas_protocol.schema import Buffer, Message, boolean, data, int8, int16, int32, uuid


class PushTelemetryRequest(Message, versions=(0, 0), flexible=0):
    """Request of PushTelemetry."""

    client_instance_id: bytes = uuid()
    subscription_id: int = int32()
    terminating: bool = boolean()
    compression_type: int = int8()
    metrics: Buffer = data()


class PushTelemetryResponse(Message, versions=(0, 0), flexible=0):
    """Response of PushTelemetry."""

    throttle_time_ms: int = int32()
    error_code: int = int16()

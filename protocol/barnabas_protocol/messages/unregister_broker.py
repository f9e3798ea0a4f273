"""UnregisterBroker (key 64): version 0, always flexible."""

from barnabas_protocol.schema import Message, int16, int32, string


class UnregisterBrokerRequest(Message, versions=(0, 0), flexible=0):
    """Request of UnregisterBroker."""

    broker_id: int = int32()


class UnregisterBrokerResponse(Message, versions=(0, 0), flexible=0):
    """Response of UnregisterBroker."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=0)

"""UnregisterController (key 94): version 0, always flexible."""

from barnabas_protocol.schema import Message, int16, int32, string


class UnregisterControllerRequest(Message, versions=(0, 0), flexible=0):
    """Request of UnregisterController."""

    controller_id: int = int32()


class UnregisterControllerResponse(Message, versions=(0, 0), flexible=0):
    """Response of UnregisterController."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=0)

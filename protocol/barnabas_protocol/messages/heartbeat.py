"""Heartbeat (key 12): versions 0-4, flexible from 4."""

from barnabas_protocol.schema import Message, int16, int32, string


class HeartbeatRequest(Message, versions=(0, 4), flexible=4):
    """Request of Heartbeat."""

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string(since=3, nullable=0, default=None)


class HeartbeatResponse(Message, versions=(0, 4), flexible=4):
    """Response of Heartbeat."""

    throttle_time_ms: int = int32(since=1)
    error_code: int = int16()

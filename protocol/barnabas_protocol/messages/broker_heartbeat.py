"""BrokerHeartbeat (key 63): versions 0-2, always flexible."""

from barnabas_protocol.schema import Message, array, boolean, int16, int32, int64, uuid


class BrokerHeartbeatRequest(Message, versions=(0, 2), flexible=0):
    """Request of BrokerHeartbeat."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    current_metadata_offset: int = int64()
    want_fence: bool = boolean()
    want_shut_down: bool = boolean()
    offline_log_dirs: list[bytes] = array(uuid, since=1, tag=0)
    cordoned_log_dirs: list[bytes] | None = array(uuid, since=2, nullable=0, tag=1, default=None)


class BrokerHeartbeatResponse(Message, versions=(0, 2), flexible=0):
    """Response of BrokerHeartbeat."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    is_caught_up: bool = boolean()
    is_fenced: bool = boolean(default=True)
    should_shut_down: bool = boolean()

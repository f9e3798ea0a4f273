"""FindCoordinator (key 10): versions 0-6, flexible from 3."""

from barnabas_protocol.schema import Message, array, int8, int16, int32, string


class FindCoordinatorRequest(Message, versions=(0, 6), flexible=3):
    """Request of FindCoordinator."""

    key: str = string(until=3)
    key_type: int = int8(since=1)
    coordinator_keys: list[str] = array(string, since=4)


class Coordinator(Message):
    """One element of `FindCoordinatorResponse.coordinators`."""

    key: str = string()
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=0)


class FindCoordinatorResponse(Message, versions=(0, 6), flexible=3):
    """Response of FindCoordinator."""

    throttle_time_ms: int = int32(since=1)
    error_code: int = int16(until=3)
    error_message: str | None = string(since=1, until=3, nullable=0)
    node_id: int = int32(until=3)
    host: str = string(until=3)
    port: int = int32(until=3)
    coordinators: list[Coordinator] = array(Coordinator, since=4)

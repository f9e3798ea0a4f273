"""SyncGroup (key 14): versions 0-5, flexible from 4."""

from barnabas_protocol.schema import Buffer, Message, array, data, int16, int32, string


class SyncGroupRequestAssignment(Message):
    """One element of `SyncGroupRequest.assignments`."""

    member_id: str = string()
    assignment: Buffer = data()


class SyncGroupRequest(Message, versions=(0, 5), flexible=4):
    """Request of SyncGroup."""

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string(since=3, nullable=0, default=None)
    protocol_type: str | None = string(since=5, nullable=0, default=None)
    protocol_name: str | None = string(since=5, nullable=0, default=None)
    assignments: list[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment)


class SyncGroupResponse(Message, versions=(0, 5), flexible=4):
    """Response of SyncGroup."""

    throttle_time_ms: int = int32(since=1)
    error_code: int = int16()
    protocol_type: str | None = string(since=5, nullable=0, default=None)
    protocol_name: str | None = string(since=5, nullable=0, default=None)
    assignment: Buffer = data()

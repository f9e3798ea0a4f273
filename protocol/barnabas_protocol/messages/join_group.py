"""JoinGroup (key 11): versions 0-9, flexible from 6."""

from barnabas_protocol.schema import Buffer, Message, array, boolean, data, int16, int32, string


class JoinGroupRequestProtocol(Message):
    """One element of `JoinGroupRequest.protocols`."""

    name: str = string()
    metadata: Buffer = data()


class JoinGroupRequest(Message, versions=(0, 9), flexible=6):
    """Request of JoinGroup."""

    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32(since=1, default=-1)
    member_id: str = string()
    group_instance_id: str | None = string(since=5, nullable=0, default=None)
    protocol_type: str = string()
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol)
    reason: str | None = string(since=8, nullable=0, default=None)


class JoinGroupResponseMember(Message):
    """One element of `JoinGroupResponse.members`."""

    member_id: str = string()
    group_instance_id: str | None = string(since=5, nullable=0, default=None)
    metadata: Buffer = data()


class JoinGroupResponse(Message, versions=(0, 9), flexible=6):
    """Response of JoinGroup."""

    throttle_time_ms: int = int32(since=2)
    error_code: int = int16()
    generation_id: int = int32(default=-1)
    protocol_type: str | None = string(since=7, nullable=0, default=None)
    protocol_name: str | None = string(nullable=7)
    leader: str = string()
    skip_assignment: bool = boolean(since=9)
    member_id: str = string()
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember)

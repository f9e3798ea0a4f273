"""LeaveGroup (key 13): versions 0-5, flexible from 4."""

from barnabas_protocol.schema import Message, array, int16, int32, string


class MemberIdentity(Message):
    """One element of `LeaveGroupRequest.members`."""

    member_id: str = string()
    group_instance_id: str | None = string(nullable=0, default=None)
    reason: str | None = string(since=5, nullable=0, default=None)


class LeaveGroupRequest(Message, versions=(0, 5), flexible=4):
    """Request of LeaveGroup."""

    group_id: str = string()
    member_id: str = string(until=2)
    members: list[MemberIdentity] = array(MemberIdentity, since=3)


class MemberResponse(Message):
    """One element of `LeaveGroupResponse.members`."""

    member_id: str = string()
    group_instance_id: str | None = string(nullable=0)
    error_code: int = int16()


class LeaveGroupResponse(Message, versions=(0, 5), flexible=4):
    """Response of LeaveGroup."""

    throttle_time_ms: int = int32(since=1)
    error_code: int = int16()
    members: list[MemberResponse] = array(MemberResponse, since=3)

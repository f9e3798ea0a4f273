"""DescribeGroups (key 15): versions 0-6, flexible from 5."""

from barnabas_protocol.schema import Buffer, Message, array, boolean, data, int16, int32, string


class DescribeGroupsRequest(Message, versions=(0, 6), flexible=5):
    """Request of DescribeGroups."""

    groups: list[str] = array(string)
    include_authorized_operations: bool = boolean(since=3)


class DescribedGroupMember(Message):
    """One element of `DescribedGroup.members`."""

    member_id: str = string()
    group_instance_id: str | None = string(since=4, nullable=0, default=None)
    client_id: str = string()
    client_host: str = string()
    member_metadata: Buffer = data()
    member_assignment: Buffer = data()


class DescribedGroup(Message):
    """One element of `DescribeGroupsResponse.groups`."""

    error_code: int = int16()
    error_message: str | None = string(since=6, nullable=0, default=None)
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    protocol_data: str = string()
    members: list[DescribedGroupMember] = array(DescribedGroupMember)
    authorized_operations: int = int32(since=3, default=-(1 << 31))


class DescribeGroupsResponse(Message, versions=(0, 6), flexible=5):
    """Response of DescribeGroups."""

    throttle_time_ms: int = int32(since=1)
    groups: list[DescribedGroup] = array(DescribedGroup)

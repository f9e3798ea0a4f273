"""ShareGroupDescribe (key 77): version 1, always flexible."""

from barnabas_protocol.schema import Message, array, boolean, int16, int32, string, struct, uuid


class ShareGroupDescribeRequest(Message, versions=(1, 1), flexible=0):
    """Request of ShareGroupDescribe."""

    group_ids: list[str] = array(string)
    include_authorized_operations: bool = boolean()


class TopicPartitions(Message):
    """One element of `Assignment.topic_partitions`."""

    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: list[int] = array(int32)


class Assignment(Message):
    """The value of `Member.assignment`."""

    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class Member(Message):
    """One element of `DescribedGroup.members`."""

    member_id: str = string()
    rack_id: str | None = string(nullable=0, default=None)
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)
    assignment: Assignment = struct(Assignment)


class DescribedGroup(Message):
    """One element of `ShareGroupDescribeResponse.groups`."""

    error_code: int = int16()
    error_message: str | None = string(nullable=0, default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    assignor_name: str = string()
    members: list[Member] = array(Member)
    authorized_operations: int = int32(default=-(1 << 31))


class ShareGroupDescribeResponse(Message, versions=(1, 1), flexible=0):
    """Response of ShareGroupDescribe."""

    throttle_time_ms: int = int32()
    groups: list[DescribedGroup] = array(DescribedGroup)

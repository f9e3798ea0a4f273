"""ShareGroupHeartbeat (key 76): version 1, always flexible."""

from barnabas_protocol.schema import Message, array, int16, int32, string, struct, uuid


class ShareGroupHeartbeatRequest(Message, versions=(1, 1), flexible=0):
    """Request of ShareGroupHeartbeat."""

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    rack_id: str | None = string(nullable=0, default=None)
    subscribed_topic_names: list[str] | None = array(string, nullable=0, default=None)


class TopicPartitions(Message):
    """One element of `Assignment.topic_partitions`."""

    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class Assignment(Message):
    """The value of `ShareGroupHeartbeatResponse.assignment`."""

    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class ShareGroupHeartbeatResponse(Message, versions=(1, 1), flexible=0):
    """Response of ShareGroupHeartbeat."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=0, default=None)
    member_id: str | None = string(nullable=0, default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = struct(Assignment, nullable=0, default=None)

"""ConsumerGroupHeartbeat (key 68): versions 0-1, always flexible."""

from barnabas_protocol.schema import Message, array, int16, int32, string, struct, uuid


class TopicPartitions(Message):
    """One element of `ConsumerGroupHeartbeatRequest.topic_partitions`."""

    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class ConsumerGroupHeartbeatRequest(Message, versions=(0, 1), flexible=0):
    """Request of ConsumerGroupHeartbeat."""

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable=0, default=None)
    rack_id: str | None = string(nullable=0, default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    subscribed_topic_names: list[str] | None = array(string, nullable=0, default=None)
    subscribed_topic_regex: str | None = string(since=1, nullable=0, default=None)
    server_assignor: str | None = string(nullable=0, default=None)
    topic_partitions: list[TopicPartitions] | None = array(
        TopicPartitions, nullable=0, default=None
    )


class Assignment(Message):
    """The value of `ConsumerGroupHeartbeatResponse.assignment`."""

    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class ConsumerGroupHeartbeatResponse(Message, versions=(0, 1), flexible=0):
    """Response of ConsumerGroupHeartbeat."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=0, default=None)
    member_id: str | None = string(nullable=0, default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = struct(Assignment, nullable=0, default=None)

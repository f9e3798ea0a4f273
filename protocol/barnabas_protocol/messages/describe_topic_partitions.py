"""DescribeTopicPartitions (key 75): version 0, always flexible."""

from barnabas_protocol.schema import Message, array, boolean, int16, int32, string, struct, uuid


class TopicRequest(Message):
    """One element of `DescribeTopicPartitionsRequest.topics`."""

    name: str = string()


class Cursor(Message):
    """The value of `DescribeTopicPartitionsRequest.cursor`."""

    topic_name: str = string()
    partition_index: int = int32()


class DescribeTopicPartitionsRequest(Message, versions=(0, 0), flexible=0):
    """Request of DescribeTopicPartitions."""

    topics: list[TopicRequest] = array(TopicRequest)
    response_partition_limit: int = int32(default=2000)
    cursor: Cursor | None = struct(Cursor, nullable=0, default=None)


class DescribeTopicPartitionsResponsePartition(Message):
    """One element of `DescribeTopicPartitionsResponseTopic.partitions`."""

    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(default=-1)
    replica_nodes: list[int] = array(int32)
    isr_nodes: list[int] = array(int32)
    eligible_leader_replicas: list[int] | None = array(int32, nullable=0, default=None)
    last_known_elr: list[int] | None = array(int32, nullable=0, default=None)
    offline_replicas: list[int] = array(int32)


class DescribeTopicPartitionsResponseTopic(Message):
    """One element of `DescribeTopicPartitionsResponse.topics`."""

    error_code: int = int16()
    name: str | None = string(nullable=0)
    topic_id: bytes = uuid()
    is_internal: bool = boolean()
    partitions: list[DescribeTopicPartitionsResponsePartition] = array(
        DescribeTopicPartitionsResponsePartition
    )
    topic_authorized_operations: int = int32(default=-(1 << 31))


class DescribeTopicPartitionsResponse(Message, versions=(0, 0), flexible=0):
    """Response of DescribeTopicPartitions."""

    throttle_time_ms: int = int32()
    topics: list[DescribeTopicPartitionsResponseTopic] = array(DescribeTopicPartitionsResponseTopic)
    next_cursor: Cursor | None = struct(Cursor, nullable=0, default=None)

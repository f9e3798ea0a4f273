"""Records of `__consumer_offsets` for classic and consumer groups, and for committed offsets."""

from barnabas_protocol.schema import (
    Buffer,
    Message,
    array,
    data,
    int8,
    int32,
    int64,
    string,
    struct,
    uuid,
)


class LegacyOffsetCommitKey(Message, versions=(0, 0)):
    """Key of record type 0."""

    group: str = string()
    topic: str = string()
    partition: int = int32()


class LegacyOffsetCommitValue(Message, versions=(0, 0)):
    """Value of record type 0."""

    offset: int = int64()
    metadata: str = string()
    commit_timestamp: int = int64()


class OffsetCommitKey(Message, versions=(0, 0)):
    """Key of record type 1."""

    group: str = string()
    topic: str = string()
    partition: int = int32()


class OffsetCommitValue(Message, versions=(0, 4), flexible=4):
    """Value of record type 1."""

    offset: int = int64()
    leader_epoch: int = int32(since=3, default=-1)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64(since=1, until=1, default=-1)
    topic_id: bytes = uuid(since=4, tag=0)


class GroupMetadataKey(Message, versions=(0, 0)):
    """Key of record type 2."""

    group: str = string()


class MemberMetadata(Message):
    """One element of `GroupMetadataValue.members`."""

    member_id: str = string()
    group_instance_id: str | None = string(since=3, nullable=0, default=None)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout: int = int32(since=1, default=-1)
    session_timeout: int = int32()
    subscription: Buffer = data()
    assignment: Buffer = data()


class GroupMetadataValue(Message, versions=(0, 4), flexible=4):
    """Value of record type 2."""

    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable=0)
    leader: str | None = string(nullable=0)
    current_state_timestamp: int = int64(since=2, default=-1)
    members: list[MemberMetadata] = array(MemberMetadata)


class ConsumerGroupMetadataKey(Message, versions=(0, 0)):
    """Key of record type 3."""

    group_id: str = string()


class ConsumerGroupMetadataValue(Message, versions=(0, 0), flexible=0):
    """Value of record type 3."""

    epoch: int = int32()
    metadata_hash: int = int64(tag=0)


class ConsumerGroupPartitionMetadataKey(Message, versions=(0, 0)):
    """Key of record type 4."""

    group_id: str = string()


class PartitionMetadata(Message):
    """One element of `TopicMetadata.partition_metadata`."""

    partition: int = int32()
    racks: list[str] = array(string)


class TopicMetadata(Message):
    """One element of `ConsumerGroupPartitionMetadataValue.topics`."""

    topic_id: bytes = uuid()
    topic_name: str = string()
    num_partitions: int = int32()
    partition_metadata: list[PartitionMetadata] = array(PartitionMetadata)


class ConsumerGroupPartitionMetadataValue(Message, versions=(0, 0), flexible=0):
    """Value of record type 4."""

    topics: list[TopicMetadata] = array(TopicMetadata)


class ConsumerGroupMemberMetadataKey(Message, versions=(0, 0)):
    """Key of record type 5."""

    group_id: str = string()
    member_id: str = string()


class ClassicProtocol(Message):
    """One element of `ClassicMemberMetadata.supported_protocols`."""

    name: str = string()
    metadata: Buffer = data()


class ClassicMemberMetadata(Message):
    """The value of `ConsumerGroupMemberMetadataValue.classic_member_metadata`."""

    session_timeout_ms: int = int32()
    supported_protocols: list[ClassicProtocol] = array(ClassicProtocol)


class ConsumerGroupMemberMetadataValue(Message, versions=(0, 0), flexible=0):
    """Value of record type 5."""

    instance_id: str | None = string(nullable=0)
    rack_id: str | None = string(nullable=0)
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)
    subscribed_topic_regex: str | None = string(nullable=0)
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(nullable=0)
    classic_member_metadata: ClassicMemberMetadata | None = struct(
        ClassicMemberMetadata, nullable=0, tag=0, default=None
    )


class ConsumerGroupTargetAssignmentMetadataKey(Message, versions=(0, 0)):
    """Key of record type 6."""

    group_id: str = string()


class ConsumerGroupTargetAssignmentMetadataValue(Message, versions=(0, 0), flexible=0):
    """Value of record type 6."""

    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0)


class ConsumerGroupTargetAssignmentMemberKey(Message, versions=(0, 0)):
    """Key of record type 7."""

    group_id: str = string()
    member_id: str = string()


class TopicPartition(Message):
    """One element of `ConsumerGroupTargetAssignmentMemberValue.topic_partitions`."""

    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class ConsumerGroupTargetAssignmentMemberValue(Message, versions=(0, 0), flexible=0):
    """Value of record type 7."""

    topic_partitions: list[TopicPartition] = array(TopicPartition)


class ConsumerGroupCurrentMemberAssignmentKey(Message, versions=(0, 0)):
    """Key of record type 8."""

    group_id: str = string()
    member_id: str = string()


class TopicPartitions(Message):
    """One element of `ConsumerGroupCurrentMemberAssignmentValue.assigned_partitions`."""

    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)
    assignment_epochs: list[int] | None = array(int32, nullable=0, tag=0, default=None)


class ConsumerGroupCurrentMemberAssignmentValue(Message, versions=(0, 0), flexible=0):
    """Value of record type 8."""

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)
    partitions_pending_revocation: list[TopicPartitions] = array(TopicPartitions)


class ConsumerGroupRegularExpressionKey(Message, versions=(0, 0)):
    """Key of record type 16."""

    group_id: str = string()
    regular_expression: str = string()


class ConsumerGroupRegularExpressionValue(Message, versions=(0, 0), flexible=0):
    """Value of record type 16."""

    topics: list[str] = array(string)
    version: int = int64()
    timestamp: int = int64()

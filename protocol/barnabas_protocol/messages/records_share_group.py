"""Records of `__consumer_offsets` for share groups."""

from barnabas_protocol.schema import Message, array, int8, int32, int64, string, uuid


class ShareGroupMetadataKey(Message, versions=(0, 0)):
    """Key of record type 11."""

    group_id: str = string()


class ShareGroupMetadataValue(Message, versions=(0, 0), flexible=0):
    """Value of record type 11."""

    epoch: int = int32()
    metadata_hash: int = int64()


class ShareGroupMemberMetadataKey(Message, versions=(0, 0)):
    """Key of record type 10."""

    group_id: str = string()
    member_id: str = string()


class ShareGroupMemberMetadataValue(Message, versions=(0, 0), flexible=0):
    """Value of record type 10."""

    rack_id: str | None = string(nullable=0)
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)


class ShareGroupTargetAssignmentMetadataKey(Message, versions=(0, 0)):
    """Key of record type 12."""

    group_id: str = string()


class ShareGroupTargetAssignmentMetadataValue(Message, versions=(0, 0), flexible=0):
    """Value of record type 12."""

    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0)


class ShareGroupTargetAssignmentMemberKey(Message, versions=(0, 0)):
    """Key of record type 13."""

    group_id: str = string()
    member_id: str = string()


class TopicPartition(Message):
    """One element of `ShareGroupTargetAssignmentMemberValue.topic_partitions`."""

    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class ShareGroupTargetAssignmentMemberValue(Message, versions=(0, 0), flexible=0):
    """Value of record type 13."""

    topic_partitions: list[TopicPartition] = array(TopicPartition)


class ShareGroupCurrentMemberAssignmentKey(Message, versions=(0, 0)):
    """Key of record type 14."""

    group_id: str = string()
    member_id: str = string()


class TopicPartitions(Message):
    """One element of `ShareGroupCurrentMemberAssignmentValue.assigned_partitions`."""

    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class ShareGroupCurrentMemberAssignmentValue(Message, versions=(0, 0), flexible=0):
    """Value of record type 14."""

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)


class ShareGroupStatePartitionMetadataKey(Message, versions=(0, 0)):
    """Key of record type 15."""

    group_id: str = string()


class TopicPartitionsInfo(Message):
    """One element of `ShareGroupStatePartitionMetadataValue.initializing_topics`."""

    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: list[int] = array(int32)


class TopicInfo(Message):
    """One element of `ShareGroupStatePartitionMetadataValue.deleting_topics`."""

    topic_id: bytes = uuid()
    topic_name: str = string()


class ShareGroupStatePartitionMetadataValue(Message, versions=(0, 0), flexible=0):
    """Value of record type 15."""

    initializing_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    initialized_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    deleting_topics: list[TopicInfo] = array(TopicInfo)

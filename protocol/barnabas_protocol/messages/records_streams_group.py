"""Records of `__consumer_offsets` for Streams groups."""

from barnabas_protocol.schema import (
    Message,
    array,
    int8,
    int16,
    int32,
    int64,
    string,
    struct,
    uint16,
)


class StreamsGroupMetadataKey(Message, versions=(0, 0)):
    """Key of record type 17."""

    group_id: str = string()


class LastAssignmentConfig(Message):
    """One element of `StreamsGroupMetadataValue.last_assignment_configs`."""

    key: str = string()
    value: str = string()


class StreamsGroupMetadataValue(Message, versions=(0, 0), flexible=0):
    """Value of record type 17."""

    epoch: int = int32()
    metadata_hash: int = int64()
    validated_topology_epoch: int = int32(tag=0, default=-1)
    last_assignment_configs: list[LastAssignmentConfig] | None = array(
        LastAssignmentConfig, nullable=0, tag=1, default=None
    )
    stored_description_topology_epoch: int = int32(tag=2, default=-1)
    failed_description_topology_epoch: int = int32(tag=3, default=-1)


class StreamsGroupMemberMetadataKey(Message, versions=(0, 0)):
    """Key of record type 19."""

    group_id: str = string()
    member_id: str = string()


class Endpoint(Message):
    """The value of `StreamsGroupMemberMetadataValue.user_endpoint`."""

    host: str = string()
    port: int = uint16()


class KeyValue(Message):
    """One element of `StreamsGroupMemberMetadataValue.client_tags`."""

    key: str = string()
    value: str = string()


class StreamsGroupMemberMetadataValue(Message, versions=(0, 0), flexible=0):
    """Value of record type 19."""

    instance_id: str | None = string(nullable=0)
    rack_id: str | None = string(nullable=0)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout_ms: int = int32(default=-1)
    topology_epoch: int = int32()
    process_id: str = string()
    user_endpoint: Endpoint | None = struct(Endpoint, nullable=0, default=None)
    client_tags: list[KeyValue] = array(KeyValue)


class StreamsGroupTargetAssignmentMetadataKey(Message, versions=(0, 0)):
    """Key of record type 20."""

    group_id: str = string()


class StreamsGroupTargetAssignmentMetadataValue(Message, versions=(0, 0), flexible=0):
    """Value of record type 20."""

    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0)


class StreamsGroupTargetAssignmentMemberKey(Message, versions=(0, 0)):
    """Key of record type 21."""

    group_id: str = string()
    member_id: str = string()


class StreamsGroupTargetAssignmentMemberTaskIds(Message):
    """One element of `StreamsGroupTargetAssignmentMemberValue.active_tasks`."""

    subtopology_id: str = string()
    partitions: list[int] = array(int32)


class StreamsGroupTargetAssignmentMemberValue(Message, versions=(0, 0), flexible=0):
    """Value of record type 21."""

    active_tasks: list[StreamsGroupTargetAssignmentMemberTaskIds] = array(
        StreamsGroupTargetAssignmentMemberTaskIds
    )
    standby_tasks: list[StreamsGroupTargetAssignmentMemberTaskIds] = array(
        StreamsGroupTargetAssignmentMemberTaskIds
    )
    warmup_tasks: list[StreamsGroupTargetAssignmentMemberTaskIds] = array(
        StreamsGroupTargetAssignmentMemberTaskIds
    )


class StreamsGroupCurrentMemberAssignmentKey(Message, versions=(0, 0)):
    """Key of record type 22."""

    group_id: str = string()
    member_id: str = string()


class StreamsGroupCurrentMemberAssignmentTaskIds(Message):
    """One element of `StreamsGroupCurrentMemberAssignmentValue.active_tasks`."""

    subtopology_id: str = string()
    partitions: list[int] = array(int32)
    assignment_epochs: list[int] | None = array(int32, nullable=0, tag=0, default=None)


class StreamsGroupCurrentMemberAssignmentValue(Message, versions=(0, 0), flexible=0):
    """Value of record type 22."""

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    active_tasks: list[StreamsGroupCurrentMemberAssignmentTaskIds] = array(
        StreamsGroupCurrentMemberAssignmentTaskIds
    )
    standby_tasks: list[StreamsGroupCurrentMemberAssignmentTaskIds] = array(
        StreamsGroupCurrentMemberAssignmentTaskIds
    )
    warmup_tasks: list[StreamsGroupCurrentMemberAssignmentTaskIds] = array(
        StreamsGroupCurrentMemberAssignmentTaskIds
    )
    active_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentTaskIds] = array(
        StreamsGroupCurrentMemberAssignmentTaskIds
    )
    standby_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentTaskIds] = array(
        StreamsGroupCurrentMemberAssignmentTaskIds
    )
    warmup_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentTaskIds] = array(
        StreamsGroupCurrentMemberAssignmentTaskIds
    )


class StreamsGroupTopologyKey(Message, versions=(0, 0)):
    """Key of record type 23."""

    group_id: str = string()


class TopicConfig(Message):
    """One element of `TopicInfo.topic_configs`."""

    key: str = string()
    value: str = string()


class TopicInfo(Message):
    """One element of `Subtopology.state_changelog_topics`."""

    name: str = string()
    partitions: int = int32()
    replication_factor: int = int16()
    topic_configs: list[TopicConfig] = array(TopicConfig)


class CopartitionGroup(Message):
    """One element of `Subtopology.copartition_groups`."""

    source_topics: list[int] = array(int16)
    source_topic_regex: list[int] = array(int16)
    repartition_source_topics: list[int] = array(int16)


class Subtopology(Message):
    """One element of `StreamsGroupTopologyValue.subtopologies`."""

    subtopology_id: str = string()
    source_topics: list[str] = array(string)
    source_topic_regex: list[str] = array(string)
    state_changelog_topics: list[TopicInfo] = array(TopicInfo)
    repartition_sink_topics: list[str] = array(string)
    repartition_source_topics: list[TopicInfo] = array(TopicInfo)
    copartition_groups: list[CopartitionGroup] = array(CopartitionGroup)


class StreamsGroupTopologyValue(Message, versions=(0, 0), flexible=0):
    """Value of record type 23."""

    epoch: int = int32()
    subtopologies: list[Subtopology] = array(Subtopology)

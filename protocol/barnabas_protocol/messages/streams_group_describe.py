"""StreamsGroupDescribe (key 89): versions 0-1, always flexible."""

from barnabas_protocol.schema import (
    Message,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    string,
    struct,
    uint16,
)


class StreamsGroupDescribeRequest(Message, versions=(0, 1), flexible=0):
    """Request of StreamsGroupDescribe."""

    group_ids: list[str] = array(string)
    include_authorized_operations: bool = boolean()
    include_topology_description: bool = boolean(since=1)


class KeyValue(Message):
    """One element of `TopicInfo.topic_configs`."""

    key: str = string()
    value: str = string()


class TopicInfo(Message):
    """One element of `Subtopology.state_changelog_topics`."""

    name: str = string()
    partitions: int = int32()
    replication_factor: int = int16()
    topic_configs: list[KeyValue] = array(KeyValue)


class Subtopology(Message):
    """One element of `Topology.subtopologies`."""

    subtopology_id: str = string()
    source_topics: list[str] = array(string)
    repartition_sink_topics: list[str] = array(string)
    state_changelog_topics: list[TopicInfo] = array(TopicInfo)
    repartition_source_topics: list[TopicInfo] = array(TopicInfo)


class Topology(Message):
    """The value of `DescribedGroup.topology`."""

    epoch: int = int32()
    subtopologies: list[Subtopology] | None = array(Subtopology, nullable=0, default=None)


class Endpoint(Message):
    """The value of `Member.user_endpoint`."""

    host: str = string()
    port: int = uint16()


class TaskOffset(Message):
    """One element of `Member.task_offsets`."""

    subtopology_id: str = string()
    partition: int = int32()
    offset: int = int64()


class TaskIds(Message):
    """One element of `Assignment.active_tasks`."""

    subtopology_id: str = string()
    partitions: list[int] = array(int32)


class Assignment(Message):
    """The value of `Member.assignment`."""

    active_tasks: list[TaskIds] = array(TaskIds)
    standby_tasks: list[TaskIds] = array(TaskIds)
    warmup_tasks: list[TaskIds] = array(TaskIds)


class Member(Message):
    """One element of `DescribedGroup.members`."""

    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable=0, default=None)
    rack_id: str | None = string(nullable=0, default=None)
    client_id: str = string()
    client_host: str = string()
    topology_epoch: int = int32()
    process_id: str = string()
    user_endpoint: Endpoint | None = struct(Endpoint, nullable=0, default=None)
    client_tags: list[KeyValue] = array(KeyValue)
    task_offsets: list[TaskOffset] = array(TaskOffset)
    task_end_offsets: list[TaskOffset] = array(TaskOffset)
    assignment: Assignment = struct(Assignment)
    target_assignment: Assignment = struct(Assignment)
    is_classic: bool = boolean()


class TopologyDescriptionNode(Message):
    """One element of `TopologyDescriptionSubtopology.nodes`."""

    name: str = string()
    node_type: int = int8()
    source_topics: list[str] = array(string)
    sink_topic: str | None = string(nullable=0, default=None)
    stores: list[str] = array(string)
    successors: list[str] = array(string)


class TopologyDescriptionSubtopology(Message):
    """One element of `TopologyDescription.subtopologies`."""

    subtopology_id: str = string()
    nodes: list[TopologyDescriptionNode] = array(TopologyDescriptionNode)


class TopologyDescriptionGlobalStore(Message):
    """One element of `TopologyDescription.global_stores`."""

    source: TopologyDescriptionNode = struct(TopologyDescriptionNode)
    processor: TopologyDescriptionNode = struct(TopologyDescriptionNode)


class TopologyDescription(Message):
    """The value of `DescribedGroup.topology_description`."""

    subtopologies: list[TopologyDescriptionSubtopology] = array(TopologyDescriptionSubtopology)
    global_stores: list[TopologyDescriptionGlobalStore] = array(TopologyDescriptionGlobalStore)


class DescribedGroup(Message):
    """One element of `StreamsGroupDescribeResponse.groups`."""

    error_code: int = int16()
    error_message: str | None = string(nullable=0, default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    topology: Topology | None = struct(Topology, nullable=0, default=None)
    members: list[Member] = array(Member)
    authorized_operations: int = int32(default=-(1 << 31))
    topology_description: TopologyDescription | None = struct(
        TopologyDescription, since=1, nullable=0, default=None
    )
    topology_description_status: int = int8(since=1)
    assignor_name: str | None = string(since=1, nullable=0, default=None)


class StreamsGroupDescribeResponse(Message, versions=(0, 1), flexible=0):
    """Response of StreamsGroupDescribe."""

    throttle_time_ms: int = int32()
    groups: list[DescribedGroup] = array(DescribedGroup)

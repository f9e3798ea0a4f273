"""StreamsGroupTopologyDescriptionUpdate (key 93): version 0, always flexible."""

from barnabas_protocol.schema import Message, array, int8, int16, int32, string, struct


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
    """The value of `StreamsGroupTopologyDescriptionUpdateRequest.topology_description`."""

    subtopologies: list[TopologyDescriptionSubtopology] = array(TopologyDescriptionSubtopology)
    global_stores: list[TopologyDescriptionGlobalStore] = array(TopologyDescriptionGlobalStore)


class StreamsGroupTopologyDescriptionUpdateRequest(Message, versions=(0, 0), flexible=0):
    """Request of StreamsGroupTopologyDescriptionUpdate."""

    group_id: str = string()
    member_id: str = string()
    topology_epoch: int = int32()
    topology_description: TopologyDescription = struct(TopologyDescription)


class StreamsGroupTopologyDescriptionUpdateResponse(Message, versions=(0, 0), flexible=0):
    """Response of StreamsGroupTopologyDescriptionUpdate."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=0, default=None)

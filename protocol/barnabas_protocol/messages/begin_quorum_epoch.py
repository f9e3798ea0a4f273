"""BeginQuorumEpoch (key 53): versions 0-1, flexible from 1."""

from barnabas_protocol.schema import Message, array, int16, int32, string, uint16, uuid


class BeginQuorumEpochRequestPartitionData(Message):
    """One element of `BeginQuorumEpochRequestTopicData.partitions`."""

    partition_index: int = int32()
    voter_directory_id: bytes = uuid(since=1)
    leader_id: int = int32()
    leader_epoch: int = int32()


class BeginQuorumEpochRequestTopicData(Message):
    """One element of `BeginQuorumEpochRequest.topics`."""

    topic_name: str = string()
    partitions: list[BeginQuorumEpochRequestPartitionData] = array(
        BeginQuorumEpochRequestPartitionData
    )


class LeaderEndpoint(Message):
    """One element of `BeginQuorumEpochRequest.leader_endpoints`."""

    name: str = string()
    host: str = string()
    port: int = uint16()


class BeginQuorumEpochRequest(Message, versions=(0, 1), flexible=1):
    """Request of BeginQuorumEpoch."""

    cluster_id: str | None = string(nullable=0, default=None)
    voter_id: int = int32(since=1, default=-1)
    topics: list[BeginQuorumEpochRequestTopicData] = array(BeginQuorumEpochRequestTopicData)
    leader_endpoints: list[LeaderEndpoint] = array(LeaderEndpoint, since=1)


class BeginQuorumEpochResponsePartitionData(Message):
    """One element of `BeginQuorumEpochResponseTopicData.partitions`."""

    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()


class BeginQuorumEpochResponseTopicData(Message):
    """One element of `BeginQuorumEpochResponse.topics`."""

    topic_name: str = string()
    partitions: list[BeginQuorumEpochResponsePartitionData] = array(
        BeginQuorumEpochResponsePartitionData
    )


class NodeEndpoint(Message):
    """One element of `BeginQuorumEpochResponse.node_endpoints`."""

    node_id: int = int32()
    host: str = string()
    port: int = uint16()


class BeginQuorumEpochResponse(Message, versions=(0, 1), flexible=1):
    """Response of BeginQuorumEpoch."""

    error_code: int = int16()
    topics: list[BeginQuorumEpochResponseTopicData] = array(BeginQuorumEpochResponseTopicData)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, since=1, tag=0)

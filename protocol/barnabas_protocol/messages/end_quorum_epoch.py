"""EndQuorumEpoch (key 54): versions 0-1, flexible from 1."""

from barnabas_protocol.schema import Message, array, int16, int32, string, uint16, uuid


class ReplicaInfo(Message):
    """One element of `EndQuorumEpochRequestPartitionData.preferred_candidates`."""

    candidate_id: int = int32()
    candidate_directory_id: bytes = uuid()


class EndQuorumEpochRequestPartitionData(Message):
    """One element of `EndQuorumEpochRequestTopicData.partitions`."""

    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32()
    preferred_successors: list[int] = array(int32, until=0)
    preferred_candidates: list[ReplicaInfo] = array(ReplicaInfo, since=1)


class EndQuorumEpochRequestTopicData(Message):
    """One element of `EndQuorumEpochRequest.topics`."""

    topic_name: str = string()
    partitions: list[EndQuorumEpochRequestPartitionData] = array(EndQuorumEpochRequestPartitionData)


class LeaderEndpoint(Message):
    """One element of `EndQuorumEpochRequest.leader_endpoints`."""

    name: str = string()
    host: str = string()
    port: int = uint16()


class EndQuorumEpochRequest(Message, versions=(0, 1), flexible=1):
    """Request of EndQuorumEpoch."""

    cluster_id: str | None = string(nullable=0, default=None)
    topics: list[EndQuorumEpochRequestTopicData] = array(EndQuorumEpochRequestTopicData)
    leader_endpoints: list[LeaderEndpoint] = array(LeaderEndpoint, since=1)


class EndQuorumEpochResponsePartitionData(Message):
    """One element of `EndQuorumEpochResponseTopicData.partitions`."""

    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()


class EndQuorumEpochResponseTopicData(Message):
    """One element of `EndQuorumEpochResponse.topics`."""

    topic_name: str = string()
    partitions: list[EndQuorumEpochResponsePartitionData] = array(
        EndQuorumEpochResponsePartitionData
    )


class NodeEndpoint(Message):
    """One element of `EndQuorumEpochResponse.node_endpoints`."""

    node_id: int = int32()
    host: str = string()
    port: int = uint16()


class EndQuorumEpochResponse(Message, versions=(0, 1), flexible=1):
    """Response of EndQuorumEpoch."""

    error_code: int = int16()
    topics: list[EndQuorumEpochResponseTopicData] = array(EndQuorumEpochResponseTopicData)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, since=1, tag=0)

"""DescribeQuorum (key 55): versions 0-2, always flexible."""

from barnabas_protocol.schema import Message, array, int16, int32, int64, string, uint16, uuid


class DescribeQuorumRequestPartitionData(Message):
    """One element of `DescribeQuorumRequestTopicData.partitions`."""

    partition_index: int = int32()


class DescribeQuorumRequestTopicData(Message):
    """One element of `DescribeQuorumRequest.topics`."""

    topic_name: str = string()
    partitions: list[DescribeQuorumRequestPartitionData] = array(DescribeQuorumRequestPartitionData)


class DescribeQuorumRequest(Message, versions=(0, 2), flexible=0):
    """Request of DescribeQuorum."""

    topics: list[DescribeQuorumRequestTopicData] = array(DescribeQuorumRequestTopicData)


class ReplicaState(Message):
    """One element of `DescribeQuorumResponsePartitionData.current_voters`."""

    replica_id: int = int32()
    replica_directory_id: bytes = uuid(since=2)
    log_end_offset: int = int64()
    last_fetch_timestamp: int = int64(since=1, default=-1)
    last_caught_up_timestamp: int = int64(since=1, default=-1)


class DescribeQuorumResponsePartitionData(Message):
    """One element of `DescribeQuorumResponseTopicData.partitions`."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(since=2, nullable=0)
    leader_id: int = int32()
    leader_epoch: int = int32()
    high_watermark: int = int64()
    current_voters: list[ReplicaState] = array(ReplicaState)
    observers: list[ReplicaState] = array(ReplicaState)


class DescribeQuorumResponseTopicData(Message):
    """One element of `DescribeQuorumResponse.topics`."""

    topic_name: str = string()
    partitions: list[DescribeQuorumResponsePartitionData] = array(
        DescribeQuorumResponsePartitionData
    )


class Listener(Message):
    """One element of `Node.listeners`."""

    name: str = string()
    host: str = string()
    port: int = uint16()


class Node(Message):
    """One element of `DescribeQuorumResponse.nodes`."""

    node_id: int = int32()
    listeners: list[Listener] = array(Listener)


class DescribeQuorumResponse(Message, versions=(0, 2), flexible=0):
    """Response of DescribeQuorum."""

    error_code: int = int16()
    error_message: str | None = string(since=2, nullable=0)
    topics: list[DescribeQuorumResponseTopicData] = array(DescribeQuorumResponseTopicData)
    nodes: list[Node] = array(Node, since=2)

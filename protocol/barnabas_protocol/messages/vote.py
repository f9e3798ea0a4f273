"""Vote (key 52): versions 0-2, always flexible."""

from barnabas_protocol.schema import (
    Message,
    array,
    boolean,
    int16,
    int32,
    int64,
    string,
    uint16,
    uuid,
)


class VoteRequestPartitionData(Message):
    """One element of `VoteRequestTopicData.partitions`."""

    partition_index: int = int32()
    replica_epoch: int = int32()
    replica_id: int = int32()
    replica_directory_id: bytes = uuid(since=1)
    voter_directory_id: bytes = uuid(since=1)
    last_offset_epoch: int = int32()
    last_offset: int = int64()
    pre_vote: bool = boolean(since=2)


class VoteRequestTopicData(Message):
    """One element of `VoteRequest.topics`."""

    topic_name: str = string()
    partitions: list[VoteRequestPartitionData] = array(VoteRequestPartitionData)


class VoteRequest(Message, versions=(0, 2), flexible=0):
    """Request of Vote."""

    cluster_id: str | None = string(nullable=0, default=None)
    voter_id: int = int32(since=1, default=-1)
    topics: list[VoteRequestTopicData] = array(VoteRequestTopicData)


class VoteResponsePartitionData(Message):
    """One element of `VoteResponseTopicData.partitions`."""

    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()
    vote_granted: bool = boolean()


class VoteResponseTopicData(Message):
    """One element of `VoteResponse.topics`."""

    topic_name: str = string()
    partitions: list[VoteResponsePartitionData] = array(VoteResponsePartitionData)


class NodeEndpoint(Message):
    """One element of `VoteResponse.node_endpoints`."""

    node_id: int = int32()
    host: str = string()
    port: int = uint16()


class VoteResponse(Message, versions=(0, 2), flexible=0):
    """Response of Vote."""

    error_code: int = int16()
    topics: list[VoteResponseTopicData] = array(VoteResponseTopicData)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, since=1, tag=0)

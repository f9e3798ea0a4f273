"""FetchSnapshot (key 59): versions 0-1, always flexible."""

from barnabas_protocol.schema import (
    Buffer,
    Message,
    array,
    int16,
    int32,
    int64,
    records,
    string,
    struct,
    uint16,
    uuid,
)


class SnapshotId(Message):
    """The value of `FetchSnapshotRequestPartitionSnapshot.snapshot_id`."""

    end_offset: int = int64()
    epoch: int = int32()


class FetchSnapshotRequestPartitionSnapshot(Message):
    """One element of `FetchSnapshotRequestTopicSnapshot.partitions`."""

    partition: int = int32()
    current_leader_epoch: int = int32()
    snapshot_id: SnapshotId = struct(SnapshotId)
    position: int = int64()
    replica_directory_id: bytes = uuid(since=1, tag=0)


class FetchSnapshotRequestTopicSnapshot(Message):
    """One element of `FetchSnapshotRequest.topics`."""

    name: str = string()
    partitions: list[FetchSnapshotRequestPartitionSnapshot] = array(
        FetchSnapshotRequestPartitionSnapshot
    )


class FetchSnapshotRequest(Message, versions=(0, 1), flexible=0):
    """Request of FetchSnapshot."""

    cluster_id: str | None = string(nullable=0, tag=0, default=None)
    replica_id: int = int32(default=-1)
    max_bytes: int = int32(default=(1 << 31) - 1)
    topics: list[FetchSnapshotRequestTopicSnapshot] = array(FetchSnapshotRequestTopicSnapshot)


class LeaderIdAndEpoch(Message):
    """The value of `FetchSnapshotResponsePartitionSnapshot.current_leader`."""

    leader_id: int = int32()
    leader_epoch: int = int32()


class FetchSnapshotResponsePartitionSnapshot(Message):
    """One element of `FetchSnapshotResponseTopicSnapshot.partitions`."""

    index: int = int32()
    error_code: int = int16()
    snapshot_id: SnapshotId = struct(SnapshotId)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, tag=0)
    size: int = int64()
    position: int = int64()
    unaligned_records: Buffer | list[Buffer] = records(default=b"")


class FetchSnapshotResponseTopicSnapshot(Message):
    """One element of `FetchSnapshotResponse.topics`."""

    name: str = string()
    partitions: list[FetchSnapshotResponsePartitionSnapshot] = array(
        FetchSnapshotResponsePartitionSnapshot
    )


class NodeEndpoint(Message):
    """One element of `FetchSnapshotResponse.node_endpoints`."""

    node_id: int = int32()
    host: str = string()
    port: int = uint16()


class FetchSnapshotResponse(Message, versions=(0, 1), flexible=0):
    """Response of FetchSnapshot."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    topics: list[FetchSnapshotResponseTopicSnapshot] = array(FetchSnapshotResponseTopicSnapshot)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, since=1, tag=0)

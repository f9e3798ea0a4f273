"""ShareFetch (key 78): versions 1-2, always flexible."""

from barnabas_protocol.schema import (
    Buffer,
    Message,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    records,
    string,
    struct,
    uuid,
)


class AcknowledgementBatch(Message):
    """One element of `FetchPartition.acknowledgement_batches`."""

    first_offset: int = int64()
    last_offset: int = int64()
    acknowledge_types: list[int] = array(int8)


class FetchPartition(Message):
    """One element of `FetchTopic.partitions`."""

    partition_index: int = int32()
    partition_max_bytes: int = int32(until=0)
    acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch)


class FetchTopic(Message):
    """One element of `ShareFetchRequest.topics`."""

    topic_id: bytes = uuid()
    partitions: list[FetchPartition] = array(FetchPartition)


class ForgottenTopic(Message):
    """One element of `ShareFetchRequest.forgotten_topics_data`."""

    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class ShareFetchRequest(Message, versions=(1, 2), flexible=0):
    """Request of ShareFetch."""

    group_id: str | None = string(nullable=0, default=None)
    member_id: str | None = string(nullable=0)
    share_session_epoch: int = int32()
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=(1 << 31) - 1)
    max_records: int = int32()
    batch_size: int = int32()
    share_acquire_mode: int = int8(since=2)
    is_renew_ack: bool = boolean(since=2)
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic)


class LeaderIdAndEpoch(Message):
    """The value of `PartitionData.current_leader`."""

    leader_id: int = int32()
    leader_epoch: int = int32()


class AcquiredRecords(Message):
    """One element of `PartitionData.acquired_records`."""

    first_offset: int = int64()
    last_offset: int = int64()
    delivery_count: int = int16()


class PartitionData(Message):
    """One element of `ShareFetchableTopicResponse.partitions`."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=0, default=None)
    acknowledge_error_code: int = int16()
    acknowledge_error_message: str | None = string(nullable=0, default=None)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch)
    records: Buffer | list[Buffer] = records(default=b"")
    acquired_records: list[AcquiredRecords] = array(AcquiredRecords)


class ShareFetchableTopicResponse(Message):
    """One element of `ShareFetchResponse.responses`."""

    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class NodeEndpoint(Message):
    """One element of `ShareFetchResponse.node_endpoints`."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable=0, default=None)


class ShareFetchResponse(Message, versions=(1, 2), flexible=0):
    """Response of ShareFetch."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=0, default=None)
    acquisition_lock_timeout_ms: int = int32()
    responses: list[ShareFetchableTopicResponse] = array(ShareFetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint)

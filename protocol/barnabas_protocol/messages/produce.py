"""Produce (key 0): versions 3-13, flexible from 9."""

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
    uuid,
)


class PartitionProduceData(Message):
    """One element of `TopicProduceData.partition_data`."""

    index: int = int32()
    records: Buffer | None = records(nullable=0)


class TopicProduceData(Message):
    """One element of `ProduceRequest.topic_data`."""

    name: str = string(until=12)
    topic_id: bytes = uuid(since=13)
    partition_data: list[PartitionProduceData] = array(PartitionProduceData)


class ProduceRequest(Message, versions=(3, 13), flexible=9):
    """Request of Produce."""

    transactional_id: str | None = string(nullable=0, default=None)
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: list[TopicProduceData] = array(TopicProduceData)


class BatchIndexAndErrorMessage(Message):
    """One element of `PartitionProduceResponse.record_errors`."""

    batch_index: int = int32()
    batch_index_error_message: str | None = string(nullable=0, default=None)


class LeaderIdAndEpoch(Message):
    """The value of `PartitionProduceResponse.current_leader`."""

    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


class PartitionProduceResponse(Message):
    """One element of `TopicProduceResponse.partition_responses`."""

    index: int = int32()
    error_code: int = int16()
    base_offset: int = int64()
    log_append_time_ms: int = int64(default=-1)
    log_start_offset: int = int64(since=5, default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = array(BatchIndexAndErrorMessage, since=8)
    error_message: str | None = string(since=8, nullable=0, default=None)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, since=10, tag=0)


class TopicProduceResponse(Message):
    """One element of `ProduceResponse.responses`."""

    name: str = string(until=12)
    topic_id: bytes = uuid(since=13)
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse)


class NodeEndpoint(Message):
    """One element of `ProduceResponse.node_endpoints`."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable=0, default=None)


class ProduceResponse(Message, versions=(3, 13), flexible=9):
    """Response of Produce."""

    responses: list[TopicProduceResponse] = array(TopicProduceResponse)
    throttle_time_ms: int = int32()
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, since=10, tag=0)

"""TxnOffsetCommit (key 28): versions 0-6, flexible from 3."""

from barnabas_protocol.schema import Message, array, int16, int32, int64, string, uuid


class TxnOffsetCommitRequestPartition(Message):
    """One element of `TxnOffsetCommitRequestTopic.partitions`."""

    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(since=2, default=-1)
    committed_metadata: str | None = string(nullable=0)


class TxnOffsetCommitRequestTopic(Message):
    """One element of `TxnOffsetCommitRequest.topics`."""

    name: str = string(until=5)
    topic_id: bytes = uuid(since=6)
    partitions: list[TxnOffsetCommitRequestPartition] = array(TxnOffsetCommitRequestPartition)


class TxnOffsetCommitRequest(Message, versions=(0, 6), flexible=3):
    """Request of TxnOffsetCommit."""

    transactional_id: str = string()
    group_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    generation_id_or_member_epoch: int = int32(since=3, default=-1)
    member_id: str = string(since=3)
    group_instance_id: str | None = string(since=3, nullable=0, default=None)
    topics: list[TxnOffsetCommitRequestTopic] = array(TxnOffsetCommitRequestTopic)


class TxnOffsetCommitResponsePartition(Message):
    """One element of `TxnOffsetCommitResponseTopic.partitions`."""

    partition_index: int = int32()
    error_code: int = int16()


class TxnOffsetCommitResponseTopic(Message):
    """One element of `TxnOffsetCommitResponse.topics`."""

    name: str = string(until=5)
    topic_id: bytes = uuid(since=6)
    partitions: list[TxnOffsetCommitResponsePartition] = array(TxnOffsetCommitResponsePartition)


class TxnOffsetCommitResponse(Message, versions=(0, 6), flexible=3):
    """Response of TxnOffsetCommit."""

    throttle_time_ms: int = int32()
    topics: list[TxnOffsetCommitResponseTopic] = array(TxnOffsetCommitResponseTopic)

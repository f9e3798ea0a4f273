"""ReadShareGroupState (key 84): version 0, always flexible."""

from barnabas_protocol.schema import Message, array, int8, int16, int32, int64, string, uuid


class PartitionData(Message):
    """One element of `ReadStateData.partitions`."""

    partition: int = int32()
    leader_epoch: int = int32()


class ReadStateData(Message):
    """One element of `ReadShareGroupStateRequest.topics`."""

    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class ReadShareGroupStateRequest(Message, versions=(0, 0), flexible=0):
    """Request of ReadShareGroupState."""

    group_id: str = string()
    topics: list[ReadStateData] = array(ReadStateData)


class StateBatch(Message):
    """One element of `PartitionResult.state_batches`."""

    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()
    delivery_count: int = int16()


class PartitionResult(Message):
    """One element of `ReadStateResult.partitions`."""

    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=0, default=None)
    state_epoch: int = int32()
    start_offset: int = int64()
    state_batches: list[StateBatch] = array(StateBatch)


class ReadStateResult(Message):
    """One element of `ReadShareGroupStateResponse.results`."""

    topic_id: bytes = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


class ReadShareGroupStateResponse(Message, versions=(0, 0), flexible=0):
    """Response of ReadShareGroupState."""

    results: list[ReadStateResult] = array(ReadStateResult)

"""WriteShareGroupState (key 85): versions 0-1, always flexible."""

from barnabas_protocol.schema import Message, array, int8, int16, int32, int64, string, uuid


class StateBatch(Message):
    """One element of `PartitionData.state_batches`."""

    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()
    delivery_count: int = int16()


class PartitionData(Message):
    """One element of `WriteStateData.partitions`."""

    partition: int = int32()
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(since=1, default=-1)
    state_batches: list[StateBatch] = array(StateBatch)


class WriteStateData(Message):
    """One element of `WriteShareGroupStateRequest.topics`."""

    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class WriteShareGroupStateRequest(Message, versions=(0, 1), flexible=0):
    """Request of WriteShareGroupState."""

    group_id: str = string()
    topics: list[WriteStateData] = array(WriteStateData)


class PartitionResult(Message):
    """One element of `WriteStateResult.partitions`."""

    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=0, default=None)


class WriteStateResult(Message):
    """One element of `WriteShareGroupStateResponse.results`."""

    topic_id: bytes = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


class WriteShareGroupStateResponse(Message, versions=(0, 1), flexible=0):
    """Response of WriteShareGroupState."""

    results: list[WriteStateResult] = array(WriteStateResult)

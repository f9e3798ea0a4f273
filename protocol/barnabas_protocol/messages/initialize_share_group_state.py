"""InitializeShareGroupState (key 83): version 0, always flexible."""

from barnabas_protocol.schema import Message, array, int16, int32, int64, string, uuid


class PartitionData(Message):
    """One element of `InitializeStateData.partitions`."""

    partition: int = int32()
    state_epoch: int = int32()
    start_offset: int = int64()


class InitializeStateData(Message):
    """One element of `InitializeShareGroupStateRequest.topics`."""

    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class InitializeShareGroupStateRequest(Message, versions=(0, 0), flexible=0):
    """Request of InitializeShareGroupState."""

    group_id: str = string()
    topics: list[InitializeStateData] = array(InitializeStateData)


class PartitionResult(Message):
    """One element of `InitializeStateResult.partitions`."""

    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=0, default=None)


class InitializeStateResult(Message):
    """One element of `InitializeShareGroupStateResponse.results`."""

    topic_id: bytes = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


class InitializeShareGroupStateResponse(Message, versions=(0, 0), flexible=0):
    """Response of InitializeShareGroupState."""

    results: list[InitializeStateResult] = array(InitializeStateResult)

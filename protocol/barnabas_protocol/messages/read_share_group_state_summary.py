"""ReadShareGroupStateSummary (key 87): versions 0-1, always flexible."""

from barnabas_protocol.schema import Message, array, int16, int32, int64, string, uuid


class PartitionData(Message):
    """One element of `ReadStateSummaryData.partitions`."""

    partition: int = int32()
    leader_epoch: int = int32()


class ReadStateSummaryData(Message):
    """One element of `ReadShareGroupStateSummaryRequest.topics`."""

    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class ReadShareGroupStateSummaryRequest(Message, versions=(0, 1), flexible=0):
    """Request of ReadShareGroupStateSummary."""

    group_id: str = string()
    topics: list[ReadStateSummaryData] = array(ReadStateSummaryData)


class PartitionResult(Message):
    """One element of `ReadStateSummaryResult.partitions`."""

    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=0, default=None)
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(since=1, default=-1)


class ReadStateSummaryResult(Message):
    """One element of `ReadShareGroupStateSummaryResponse.results`."""

    topic_id: bytes = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


class ReadShareGroupStateSummaryResponse(Message, versions=(0, 1), flexible=0):
    """Response of ReadShareGroupStateSummary."""

    results: list[ReadStateSummaryResult] = array(ReadStateSummaryResult)

"""DeleteShareGroupState (key 86): version 0, always flexible."""

from barnabas_protocol.schema import Message, array, int16, int32, string, uuid


class PartitionData(Message):
    """One element of `DeleteStateData.partitions`."""

    partition: int = int32()


class DeleteStateData(Message):
    """One element of `DeleteShareGroupStateRequest.topics`."""

    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class DeleteShareGroupStateRequest(Message, versions=(0, 0), flexible=0):
    """Request of DeleteShareGroupState."""

    group_id: str = string()
    topics: list[DeleteStateData] = array(DeleteStateData)


class PartitionResult(Message):
    """One element of `DeleteStateResult.partitions`."""

    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=0, default=None)


class DeleteStateResult(Message):
    """One element of `DeleteShareGroupStateResponse.results`."""

    topic_id: bytes = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


class DeleteShareGroupStateResponse(Message, versions=(0, 0), flexible=0):
    """Response of DeleteShareGroupState."""

    results: list[DeleteStateResult] = array(DeleteStateResult)

"""OffsetDelete (key 47): version 0, never flexible."""

from barnabas_protocol.schema import Message, array, int16, int32, string


class OffsetDeleteRequestPartition(Message):
    """One element of `OffsetDeleteRequestTopic.partitions`."""

    partition_index: int = int32()


class OffsetDeleteRequestTopic(Message):
    """One element of `OffsetDeleteRequest.topics`."""

    name: str = string()
    partitions: list[OffsetDeleteRequestPartition] = array(OffsetDeleteRequestPartition)


class OffsetDeleteRequest(Message, versions=(0, 0)):
    """Request of OffsetDelete."""

    group_id: str = string()
    topics: list[OffsetDeleteRequestTopic] = array(OffsetDeleteRequestTopic)


class OffsetDeleteResponsePartition(Message):
    """One element of `OffsetDeleteResponseTopic.partitions`."""

    partition_index: int = int32()
    error_code: int = int16()


class OffsetDeleteResponseTopic(Message):
    """One element of `OffsetDeleteResponse.topics`."""

    name: str = string()
    partitions: list[OffsetDeleteResponsePartition] = array(OffsetDeleteResponsePartition)


class OffsetDeleteResponse(Message, versions=(0, 0)):
    """Response of OffsetDelete."""

    error_code: int = int16()
    throttle_time_ms: int = int32()
    topics: list[OffsetDeleteResponseTopic] = array(OffsetDeleteResponseTopic)

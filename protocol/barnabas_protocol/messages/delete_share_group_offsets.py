"""DeleteShareGroupOffsets (key 92): version 0, always flexible."""

from barnabas_protocol.schema import Message, array, int16, int32, string, uuid


class DeleteShareGroupOffsetsRequestTopic(Message):
    """One element of `DeleteShareGroupOffsetsRequest.topics`."""

    topic_name: str = string()


class DeleteShareGroupOffsetsRequest(Message, versions=(0, 0), flexible=0):
    """Request of DeleteShareGroupOffsets."""

    group_id: str = string()
    topics: list[DeleteShareGroupOffsetsRequestTopic] = array(DeleteShareGroupOffsetsRequestTopic)


class DeleteShareGroupOffsetsResponseTopic(Message):
    """One element of `DeleteShareGroupOffsetsResponse.responses`."""

    topic_name: str = string()
    topic_id: bytes = uuid()
    error_code: int = int16()
    error_message: str | None = string(nullable=0, default=None)


class DeleteShareGroupOffsetsResponse(Message, versions=(0, 0), flexible=0):
    """Response of DeleteShareGroupOffsets."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=0, default=None)
    responses: list[DeleteShareGroupOffsetsResponseTopic] = array(
        DeleteShareGroupOffsetsResponseTopic
    )

"""DeleteTopics (key 20): versions 1-6, flexible from 4."""

from barnabas_protocol.schema import Message, array, int16, int32, string, uuid


class DeleteTopicState(Message):
    """One element of `DeleteTopicsRequest.topics`."""

    name: str | None = string(nullable=0, default=None)
    topic_id: bytes = uuid()


class DeleteTopicsRequest(Message, versions=(1, 6), flexible=4):
    """Request of DeleteTopics."""

    topics: list[DeleteTopicState] = array(DeleteTopicState, since=6)
    topic_names: list[str] = array(string, until=5)
    timeout_ms: int = int32()


class DeletableTopicResult(Message):
    """One element of `DeleteTopicsResponse.responses`."""

    name: str | None = string(nullable=6)
    topic_id: bytes = uuid(since=6)
    error_code: int = int16()
    error_message: str | None = string(since=5, nullable=0, default=None)


class DeleteTopicsResponse(Message, versions=(1, 6), flexible=4):
    """Response of DeleteTopics."""

    throttle_time_ms: int = int32()
    responses: list[DeletableTopicResult] = array(DeletableTopicResult)

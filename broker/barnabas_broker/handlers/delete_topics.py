"""DeleteTopics (20), versions 1 to 6: remove topics. v6: also by id. Source: TOP-14."""

from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import Exchange
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import ZERO_UUID
from barnabas_protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

IDS_SINCE = 6


async def handle(
    services: Services, exchange: Exchange, request: DeleteTopicsRequest
) -> DeleteTopicsResponse:
    """Delete each topic on its own."""
    asked: list[str | bytes] = list(request.topic_names)
    refused: list[DeletableTopicResult] = []
    if exchange.api_version >= IDS_SINCE:
        refused = [_refusal(topic) for topic in request.topics if not _is_clear(topic)]
        asked = [
            topic.topic_id if topic.name is None else topic.name
            for topic in request.topics
            if _is_clear(topic)
        ]
    results = await services.controller.delete_topics(asked)
    return DeleteTopicsResponse(
        responses=refused
        + [
            DeletableTopicResult(
                name=result.name,
                topic_id=result.topic_id,
                error_code=ErrorCode.NONE if result.error is None else result.error.code,
                error_message=None if result.error is None else result.error.message,
            )
            for result in results
        ]
    )


def _is_clear(topic: DeleteTopicState) -> bool:
    """Whether the topic is given either by name or by id."""
    return (topic.name is None) != (topic.topic_id == ZERO_UUID)


def _refusal(topic: DeleteTopicState) -> DeletableTopicResult:
    message = "You may not specify both topic name and topic id."
    if topic.name is None:
        message = "Neither topic name nor id were specified."
    return DeletableTopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        error_code=ErrorCode.INVALID_REQUEST,
        error_message=message,
    )


def failed(request: DeleteTopicsRequest, error: KafkaError) -> DeleteTopicsResponse:
    """The same error for every topic."""
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(name=name, error_code=error.code, error_message=error.message)
            for name in request.topic_names
        ]
        + [
            DeletableTopicResult(
                name=topic.name,
                topic_id=topic.topic_id,
                error_code=error.code,
                error_message=error.message,
            )
            for topic in request.topics
        ]
    )

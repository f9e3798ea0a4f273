"""DeleteTopics (20), versions 1 to 6: remove topics. Source: TOP-14, QUO-7.

v5: what exceeds the quota of the client is refused (89). v6: topics also by id.

A broker that sends it to the controller names by id which topics are meant, as it knows them when
the request comes: carried out twice, or late, it does not remove a topic that was made anew.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas_broker.controller.mutation_quota import STRICT_SINCE
from barnabas_broker.handlers.authorization import topic_rights
from barnabas_broker.handlers.services import Services
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.acl import AclOperation
from barnabas_protocol.api import ApiKey
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
    services: Services, in_flight: InFlightRequest, request: DeleteTopicsRequest
) -> DeleteTopicsResponse:
    """Delete each topic on its own."""
    requested: list[str | bytes] = list(request.topic_names)
    refused: list[DeletableTopicResult] = []
    if in_flight.api_version >= IDS_SINCE:
        refused = [_refusal(topic) for topic in request.topics if not _is_clear(topic)]
        requested = [
            topic.topic_id if topic.name is None else topic.name
            for topic in request.topics
            if _is_clear(topic)
        ]
    quota = services.quotas.mutation_quota(in_flight)
    may = topic_rights(services, in_flight, AclOperation.DELETE)
    results = await services.controller.delete_topics(requested, quota, may)
    responses = refused + [
        DeletableTopicResult(
            name=result.name,
            topic_id=result.topic_id,
            error_code=ErrorCode.NONE if result.error is None else result.error.code,
            error_message=None if result.error is None else result.error.message,
        )
        for result in results
    ]
    if services.authorizer is not None:
        # As Kafka: places tell nothing of what is there and hidden.
        services.random.shuffle(responses)
    return DeleteTopicsResponse(
        throttle_time_ms=0 if quota is None else services.quotas.throttled_by_mutation(quota),
        responses=responses,
    )


def resolve(
    services: Services, in_flight: InFlightRequest, request: DeleteTopicsRequest
) -> DeletionById | None:
    """The request by ids; None where a topic is not known here, or named twice.

    None, too, where there are quotas and the client cannot be refused by them: by ids it could be.
    """
    if (
        in_flight.api_version < STRICT_SINCE[ApiKey.DELETE_TOPICS]
        and services.quotas.mutation is not None
    ):
        return None
    return deletion_by_id(services.image, request)


def deletion_by_id(image: MetadataImage, request: DeleteTopicsRequest) -> DeletionById | None:
    """The request by the ids that an image has; None where a topic is not in it, or named twice."""
    requested = [*request.topics, *(DeleteTopicState(name=name) for name in request.topic_names)]
    names: dict[bytes, str | None] = {}
    for topic in requested:
        if not _is_clear(topic):
            return None
        topic_id = topic.topic_id
        if topic.name is not None:
            known = image.topics.by_name.get(topic.name)
            if known is None:
                return None
            topic_id = known.topic_id
        names[topic_id] = topic.name
    return DeletionById(names, request.timeout_ms) if len(names) == len(requested) > 0 else None


class DeletionById:
    """A DeleteTopics request whose topics are given by their ids: a `forwarding.Resolution`."""

    version = IDS_SINCE

    def __init__(self, names: dict[bytes, str | None], timeout_ms: int) -> None:
        """`names` has the names that the client sent, None for a topic that it gave by its id."""
        self._names = names
        self._timeout_ms = timeout_ms
        self._results: list[DeletableTopicResult] = []
        self._throttle_ms = 0

    @property
    def request(self) -> DeleteTopicsRequest:
        """The request by ids."""
        return self._asking([DeleteTopicState(topic_id=topic_id) for topic_id in self._names])

    def take(
        self, response: DeleteTopicsResponse, *, was_repeated: bool
    ) -> DeleteTopicsRequest | None:
        """Take the results; what is left is the names of topics that were others when they came.

        An id that the controller does not know is one that an earlier attempt has removed, or
        somebody else meanwhile: gone, as was requested. Where there was no earlier attempt, our
        metadata was old: the controller knows what the name stands for.
        """
        left: list[str] = []
        self._throttle_ms = max(self._throttle_ms, response.throttle_time_ms)
        for result in response.responses:
            name = self._names.get(result.topic_id)
            if result.error_code == ErrorCode.UNKNOWN_TOPIC_ID and was_repeated:
                result = DeletableTopicResult(
                    name=name, topic_id=result.topic_id, error_message=None
                )
            elif result.error_code == ErrorCode.UNKNOWN_TOPIC_ID and name is not None:
                left.append(name)
                continue
            elif result.name is None:
                result.name = name
            if result.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED and name is not None:
                result.topic_id = ZERO_UUID  # it came by its name, which need not exist
            self._results.append(result)
        return self._asking([DeleteTopicState(name=name) for name in left]) if left else None

    def response(self, rest: DeleteTopicsResponse | None) -> DeleteTopicsResponse:
        """All results."""
        return DeleteTopicsResponse(
            throttle_time_ms=max(self._throttle_ms, 0 if rest is None else rest.throttle_time_ms),
            responses=self._results + ([] if rest is None else rest.responses),
        )

    def _asking(self, topics: Sequence[DeleteTopicState]) -> DeleteTopicsRequest:
        return DeleteTopicsRequest(topics=list(topics), timeout_ms=self._timeout_ms)


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

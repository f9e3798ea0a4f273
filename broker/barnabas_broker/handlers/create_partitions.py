"""CreatePartitions (37), versions 0 to 3: let topics grow. Source: TOP-13, QUO-7.

v3: what exceeds the quota of the client is refused (89).
"""

from collections import Counter

from barnabas_broker.controller.partitions import NewPartitions
from barnabas_broker.handlers.authorization import allowed
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


async def handle(
    services: Services, in_flight: InFlightRequest, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    """Let each topic grow on its own."""
    names = Counter(topic.name for topic in request.topics)
    single = [topic for topic in request.topics if names[topic.name] == 1]
    may_grow = await allowed(
        services,
        in_flight,
        AclOperation.ALTER,
        AclResourceType.TOPIC,
        (topic.name for topic in single),
    )
    quota = services.quotas.mutation_quota(in_flight)
    results = await services.controller.create_partitions(
        [_asked(topic) for topic in single if topic.name in may_grow],
        request.validate_only,
        quota,
    )
    responses = [_result(result.name, result.error) for result in results]
    responses += [
        _result(topic.name, KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        for topic in single
        if topic.name not in may_grow
    ]
    responses += [
        _result(name, KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
        for name, count in names.items()
        if count > 1
    ]
    throttle_ms = 0 if quota is None else services.quotas.throttled_by_mutation(quota)
    return CreatePartitionsResponse(throttle_time_ms=throttle_ms, results=responses)


def _asked(topic: CreatePartitionsTopic) -> NewPartitions:
    assignments = None
    if topic.assignments is not None:
        assignments = [assignment.broker_ids for assignment in topic.assignments]
    return NewPartitions(name=topic.name, count=topic.count, assignments=assignments)


def _result(name: str, error: KafkaError | None) -> CreatePartitionsTopicResult:
    if error is None:
        return CreatePartitionsTopicResult(name=name, error_message=None)
    return CreatePartitionsTopicResult(
        name=name, error_code=error.code, error_message=error.message
    )


def failed(request: CreatePartitionsRequest, error: KafkaError) -> CreatePartitionsResponse:
    """The same error for every topic."""
    return CreatePartitionsResponse(
        results=[_result(topic.name, error) for topic in request.topics]
    )

"""AlterPartitionReassignments (45), versions 0 and 1: move replicas, or stop moving them (LEAD-10).

v1: may refuse to change the number of replicas (KIP-860).
"""

from barnabas_broker.controller.reassignment import Reassigned
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


async def handle(
    services: Services, in_flight: InFlightRequest, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Begin, replace or cancel the reassignment of each partition on its own."""
    results = await services.controller.alter_reassignments(
        [
            Reassigned(topic.name, partition.partition_index, partition.replicas)
            for topic in request.topics
            for partition in topic.partitions
        ],
        may_change_factor=request.allow_replication_factor_change,
    )
    errors = iter([result.error for result in results])
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    _answer(partition.partition_index, next(errors))
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _answer(index: int, error: KafkaError | None) -> ReassignablePartitionResponse:
    return ReassignablePartitionResponse(
        partition_index=index,
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
    )


def failed(
    request: AlterPartitionReassignmentsRequest, error: KafkaError
) -> AlterPartitionReassignmentsResponse:
    """The same error for the request and for every partition."""
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=error.code,
        error_message=error.message,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    _answer(partition.partition_index, error) for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )

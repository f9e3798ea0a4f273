"""ListPartitionReassignments (46), version 0: which partitions are on the move (LEAD-10)."""

from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.errors import KafkaError
from barnabas_protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


async def handle(
    services: Services, _: InFlightRequest, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """List those requested, or all; partitions that do not exist are not on the move."""
    requested = None
    if request.topics is not None:
        requested = [(topic.name, topic.partition_indexes) for topic in request.topics]
    by_topic: dict[str, list[OngoingPartitionReassignment]] = {}
    for topic, index, partition in await services.controller.list_reassignments(requested):
        by_topic.setdefault(topic, []).append(
            OngoingPartitionReassignment(
                partition_index=index,
                replicas=list(partition.replicas),
                adding_replicas=list(partition.adding_replicas),
                removing_replicas=list(partition.removing_replicas),
            )
        )
    return ListPartitionReassignmentsResponse(
        error_message=None,
        topics=[
            OngoingTopicReassignment(name=name, partitions=partitions)
            for name, partitions in by_topic.items()
        ],
    )


def failed(
    request: ListPartitionReassignmentsRequest, error: KafkaError
) -> ListPartitionReassignmentsResponse:
    """The error; as in Kafka what was requested is named, and nothing is said of it."""
    return ListPartitionReassignmentsResponse(
        error_code=error.code,
        error_message=error.message,
        topics=[
            OngoingTopicReassignment(
                name=topic.name,
                partitions=[
                    OngoingPartitionReassignment(partition_index=index)
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
        ],
    )

"""ElectLeaders (43), versions 0 to 2: preferred and unclean elections on demand (LEAD-4).

v0: preferred elections only. v1: the type, and an error for the whole request.
"""

from barnabas_broker.controller.leader_balance import ElectionType
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

TYPE_SINCE = 1


async def handle(
    services: Services, in_flight: InFlightRequest, request: ElectLeadersRequest
) -> ElectLeadersResponse:
    """Hold an election for each partition on its own; null means all of them."""
    requested = None
    if request.topic_partitions is not None:
        requested = [
            (topic.topic, index) for topic in request.topic_partitions for index in topic.partitions
        ]
    is_typed = in_flight.api_version >= TYPE_SINCE
    results = await services.controller.elect_leaders(
        request.election_type if is_typed else ElectionType.PREFERRED, requested
    )
    by_topic: dict[str, list[PartitionResult]] = {}
    for result in results:
        by_topic.setdefault(result.topic, []).append(_answer(result.partition, result.error))
    return ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(topic=topic, partition_result=partitions)
            for topic, partitions in by_topic.items()
        ]
    )


def _answer(index: int, error: KafkaError | None) -> PartitionResult:
    return PartitionResult(
        partition_id=index,
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
    )


def failed(request: ElectLeadersRequest, error: KafkaError) -> ElectLeadersResponse:
    """The same error for the request and for every partition, as version 0 has only those."""
    return ElectLeadersResponse(
        error_code=error.code,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[_answer(index, error) for index in topic.partitions],
            )
            for topic in request.topic_partitions or ()
        ],
    )

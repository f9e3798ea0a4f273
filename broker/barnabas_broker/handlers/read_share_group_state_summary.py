"""ReadShareGroupStateSummary (87, between brokers), v0 and v1: state without batches.

v1: how many records are complete (KIP-1226). Source: SHR-25.
"""

from barnabas_broker.handlers.services import Services
from barnabas_broker.handlers.share_version import check_share_version
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.errors import KafkaError
from barnabas_protocol.messages.read_share_group_state_summary import (
    PartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)


async def handle(
    services: Services, in_flight: InFlightRequest, request: ReadShareGroupStateSummaryRequest
) -> ReadShareGroupStateSummaryResponse:
    """Have the share coordinator do it, each share partition for itself."""
    check_share_version(services)
    return await services.share_coordinator.summary(request)


def failed(
    request: ReadShareGroupStateSummaryRequest, error: KafkaError
) -> ReadShareGroupStateSummaryResponse:
    """The same error for every share partition."""
    return ReadShareGroupStateSummaryResponse(
        results=[
            ReadStateSummaryResult(
                topic_id=topic.topic_id,
                partitions=[
                    PartitionResult(
                        partition=data.partition,
                        error_code=error.code,
                        error_message=error.message,
                    )
                    for data in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )

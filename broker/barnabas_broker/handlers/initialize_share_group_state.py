"""InitializeShareGroupState (83, between brokers), version 0: begin share partitions anew.

Sent by group coordinators. Source: SHR-25.
"""

from barnabas_broker.handlers.services import Services
from barnabas_broker.handlers.share_version import check_share_version
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.errors import KafkaError
from barnabas_protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionResult,
)


async def handle(
    services: Services, in_flight: InFlightRequest, request: InitializeShareGroupStateRequest
) -> InitializeShareGroupStateResponse:
    """Have the share coordinator do it, each share partition for itself."""
    check_share_version(services)
    return await services.share_coordinator.initialize(request)


def failed(
    request: InitializeShareGroupStateRequest, error: KafkaError
) -> InitializeShareGroupStateResponse:
    """The same error for every share partition."""
    return InitializeShareGroupStateResponse(
        results=[
            InitializeStateResult(
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

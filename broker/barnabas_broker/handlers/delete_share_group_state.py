"""DeleteShareGroupState (86, between brokers), version 0: forget share partitions.

Sent by group coordinators. Source: SHR-25.
"""

from barnabas_broker.handlers.services import Services
from barnabas_broker.handlers.share_version import check_share_version
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.errors import KafkaError
from barnabas_protocol.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionResult,
)


async def handle(
    services: Services, in_flight: InFlightRequest, request: DeleteShareGroupStateRequest
) -> DeleteShareGroupStateResponse:
    """Have the share coordinator do it, each share partition for itself."""
    check_share_version(services)
    return await services.share_coordinator.delete(request)


def failed(
    request: DeleteShareGroupStateRequest, error: KafkaError
) -> DeleteShareGroupStateResponse:
    """The same error for every share partition."""
    return DeleteShareGroupStateResponse(
        results=[
            DeleteStateResult(
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

"""WriteShareGroupState (85, between brokers), versions 0 and 1: changes of share partitions.

Sent by leaders of partitions. v1: how many records are complete (KIP-1226). Source: SHR-25.
"""

from barnabas_broker.handlers.services import Services
from barnabas_broker.handlers.share_version import check_share_version
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.errors import KafkaError
from barnabas_protocol.messages.write_share_group_state import (
    PartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)


async def handle(
    services: Services, in_flight: InFlightRequest, request: WriteShareGroupStateRequest
) -> WriteShareGroupStateResponse:
    """Have the share coordinator do it, each share partition for itself."""
    check_share_version(services)
    return await services.share_coordinator.write(request)


def failed(request: WriteShareGroupStateRequest, error: KafkaError) -> WriteShareGroupStateResponse:
    """The same error for every share partition."""
    return WriteShareGroupStateResponse(
        results=[
            WriteStateResult(
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

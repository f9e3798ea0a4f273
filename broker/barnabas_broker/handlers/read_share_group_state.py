"""ReadShareGroupState (84, between brokers), version 0: states for new leaders of partitions.

A read fences the leaders before it. Source: SHR-25.
"""

from typing import Any

from barnabas_broker.handlers.request_limits import encode_apart
from barnabas_broker.handlers.services import Services
from barnabas_broker.handlers.share_version import check_share_version
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.errors import KafkaError
from barnabas_protocol.messages.read_share_group_state import (
    PartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateResult,
)

BATCHES_ON_LOOP_MAX = 1_000


async def handle(
    services: Services, in_flight: InFlightRequest, request: ReadShareGroupStateRequest
) -> Any:
    """Have the share coordinator do it, each share partition for itself."""
    check_share_version(services)
    response = await services.share_coordinator.read(request)
    batch_count = sum(
        len(result.state_batches) for topic in response.results for result in topic.partitions
    )
    if batch_count > BATCHES_ON_LOOP_MAX:
        return await encode_apart(services.heavy_work, in_flight, response)
    return response


def failed(request: ReadShareGroupStateRequest, error: KafkaError) -> ReadShareGroupStateResponse:
    """The same error for every share partition."""
    return ReadShareGroupStateResponse(
        results=[
            ReadStateResult(
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

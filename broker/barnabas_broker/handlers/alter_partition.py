"""AlterPartition (56), versions 2 and 3: a leader proposes an ISR (KIP-497); among brokers only.

v3: with the broker epoch of each member (KIP-903): nobody can join an ISR by version 2.
"""

from barnabas_broker.handlers.broker_listener import require_broker
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.errors import KafkaError
from barnabas_protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
)


async def handle(
    services: Services, in_flight: InFlightRequest, request: AlterPartitionRequest
) -> AlterPartitionResponse:
    """Change each partition on its own."""
    require_broker(services, in_flight, request.broker_id)
    return await services.controller.alter_partitions(request)


def failed(_: AlterPartitionRequest, error: KafkaError) -> AlterPartitionResponse:
    """The error of the whole request: an old broker epoch, or no controller here."""
    return AlterPartitionResponse(error_code=error.code)

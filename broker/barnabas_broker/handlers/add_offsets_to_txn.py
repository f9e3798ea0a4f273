"""AddOffsetsToTxn (25), versions 0 to 4: a transaction is about to commit offsets of a group.

Transactions of version 1 only. v2: PRODUCER_FENCED. Source: TXN-4.
"""

from barnabas_broker.coordinator.group.settings import OFFSETS_TOPIC
from barnabas_broker.coordinator.transaction.coordinator import Producer
from barnabas_broker.handlers.authorization import require
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)


async def handle(
    services: Services, in_flight: InFlightRequest, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse:
    """Add the partition of `__consumer_offsets` that holds the group.

    That may be the first that anybody wants of the topic: it is made then, and asked for again.
    """
    require(
        services,
        in_flight,
        AclOperation.WRITE,
        AclResourceType.TRANSACTIONAL_ID,
        request.transactional_id,
    )
    require(services, in_flight, AclOperation.READ, AclResourceType.GROUP, request.group_id)
    if OFFSETS_TOPIC not in services.image.topics.by_name:
        services.topic_creation.ensure(OFFSETS_TOPIC)
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    code = await services.transactions.add_offsets(
        request.transactional_id,
        Producer(request.producer_id, request.producer_epoch),
        request.group_id,
        in_flight.api_version,
    )
    return AddOffsetsToTxnResponse(error_code=code)


def failed(request: AddOffsetsToTxnRequest, error: KafkaError) -> AddOffsetsToTxnResponse:
    """The error alone."""
    return AddOffsetsToTxnResponse(error_code=error.code)

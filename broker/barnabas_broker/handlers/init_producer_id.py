"""InitProducerId (22), versions 0 to 5: an id and an epoch for a producer.

Any broker serves it for a null transactional id; ids come in blocks from the controller and are
never given twice (TXN-8). With a transactional id its coordinator does, and fences the producer
before. v3: the producer's current id and epoch (KIP-360). v4: PRODUCER_FENCED. v5: transactions
of version 2.
"""

from barnabas_broker.handlers.authorization import may_cluster, may_somewhere, require
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

NONE = -1


async def handle(
    services: Services, in_flight: InFlightRequest, request: InitProducerIdRequest
) -> InitProducerIdResponse:
    """Give out a fresh id with epoch 0, or the next epoch of a transactional id (TXN-2)."""
    await _check_rights(services, in_flight, request.transactional_id)
    if request.transactional_id == "":
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if (request.producer_id == NONE) != (request.producer_epoch == NONE):
        raise KafkaError(ErrorCode.INVALID_REQUEST)  # both or neither
    if request.transactional_id is not None:
        return await services.transactions.init_producer_id(
            request, in_flight.api_version, in_flight.host
        )
    producer_id = await services.producer_ids.take()
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


async def _check_rights(
    services: Services, in_flight: InFlightRequest, transactional_id: str | None
) -> None:
    """Refuse who may not use the id; without one, who may write to no topic at all (SEC-42).

    Raises: KafkaError 31, 53.
    """
    if transactional_id is not None:
        require(
            services,
            in_flight,
            AclOperation.WRITE,
            AclResourceType.TRANSACTIONAL_ID,
            transactional_id,
        )
    elif not (
        may_cluster(services, in_flight, AclOperation.IDEMPOTENT_WRITE, is_filter=True)
        or await may_somewhere(services, in_flight, AclOperation.WRITE, AclResourceType.TOPIC)
    ):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def failed(request: InitProducerIdRequest, error: KafkaError) -> InitProducerIdResponse:
    """The error alone."""
    return InitProducerIdResponse(error_code=error.code, producer_id=-1, producer_epoch=-1)

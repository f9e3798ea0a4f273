"""AddPartitionsToTxn (24), versions 0 to 5: partitions that a transaction is about to write to.

Clients send versions 0 to 3, one transactional id each. v4 and v5 are for brokers, which ask for
many producers at once: they verify (TXL-9) or add for transactions of version 2. v5:
TRANSACTION_ABORTABLE. Source: TXN-3.
"""

from collections.abc import Set

from barnabas_broker.coordinator.transaction.coordinator import BROKERS_SINCE_ADD, topic_results
from barnabas_broker.handlers.authorization import acts_as_broker, allowed, require
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.heavy_work import SLICE
from barnabas_broker.network.session import InFlightRequest
from barnabas_broker.replication.partition import INTERNAL_TOPICS
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTransaction,
)


async def handle(
    services: Services, in_flight: InFlightRequest, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse:
    """Add or verify, each transactional id for itself."""
    version = in_flight.api_version
    if version >= BROKERS_SINCE_ADD:
        if not acts_as_broker(services, in_flight):
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return await services.transactions.add_partitions_of_many(request, version)
    require(
        services,
        in_flight,
        AclOperation.WRITE,
        AclResourceType.TRANSACTIONAL_ID,
        request.v3_and_below_transactional_id,
    )
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    unwritable = await _unwritable(services, in_flight, request)
    codes = await services.transactions.add_partitions(transaction, version, unwritable)
    if len(codes) > SLICE:
        results = await services.heavy_work.run(in_flight, topic_results, codes)
    else:
        results = topic_results(codes)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)


async def _unwritable(
    services: Services, in_flight: InFlightRequest, request: AddPartitionsToTxnRequest
) -> Set[str]:
    """The topics to which the client may not write; internal ones it never may."""
    names = {topic.name for topic in request.v3_and_below_topics}
    writable = await allowed(
        services, in_flight, AclOperation.WRITE, AclResourceType.TOPIC, names - INTERNAL_TOPICS
    )
    return names - writable


def failed(request: AddPartitionsToTxnRequest, error: KafkaError) -> AddPartitionsToTxnResponse:
    """The error of the whole request and, for clients, of every partition."""
    return AddPartitionsToTxnResponse(
        error_code=error.code,
        results_by_topic_v3_and_below=topic_results(
            {
                TopicPartition(topic.name, index): error.code
                for topic in request.v3_and_below_topics
                for index in topic.partitions
            }
        ),
    )

"""DescribeTransactions (65), version 0: what coordinators know of transactional ids.

Source: TXN-10.
"""

from typing import Final

from barnabas_broker.coordinator.transaction.state import by_topic
from barnabas_broker.handlers.authorization import allowed, may
from barnabas_broker.handlers.request_limits import each_once
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

IDS_SLICE: Final = 100
"""Each is a command of its own: some ten microseconds."""


async def handle(
    services: Services, in_flight: InFlightRequest, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    """Describe each id for itself."""
    states = []
    ids, each = each_once(request.transactional_ids, str), services.heavy_work.each
    async for transactional_id in each(in_flight, ids, IDS_SLICE):
        if not may(
            services,
            in_flight,
            AclOperation.DESCRIBE,
            AclResourceType.TRANSACTIONAL_ID,
            transactional_id,
        ):
            error = KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            states.append(_absent(transactional_id, error))
            continue
        try:
            known = await services.transactions.describe(transactional_id)
        except KafkaError as error:
            states.append(_absent(transactional_id, error))
            continue
        topics = by_topic(known.partitions)
        visible = await allowed(
            services,
            in_flight,
            AclOperation.DESCRIBE,
            AclResourceType.TOPIC,
            topics,
            is_filter=True,
        )
        states.append(
            TransactionState(
                transactional_id=transactional_id,
                transaction_state=known.state.kafka_name,
                transaction_timeout_ms=known.timeout_ms,
                transaction_start_time_ms=known.started_ms,
                producer_id=known.producer_id,
                producer_epoch=known.producer_epoch,
                topics=[
                    TopicData(topic=topic, partitions=indexes)
                    for topic, indexes in topics.items()
                    if topic in visible
                ],
            )
        )
    return DescribeTransactionsResponse(transaction_states=states)


def _absent(transactional_id: str, error: KafkaError) -> TransactionState:
    return TransactionState(error_code=error.code, transactional_id=transactional_id)


def failed(request: DescribeTransactionsRequest, error: KafkaError) -> DescribeTransactionsResponse:
    """The same error for every id."""
    return DescribeTransactionsResponse(
        transaction_states=[_absent(one, error) for one in request.transactional_ids]
    )

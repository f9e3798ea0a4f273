"""EndTxn (26), versions 0 to 5: commit or abort a transaction.

v2: PRODUCER_FENCED. v4: TRANSACTION_ABORTABLE. v5: transactions of version 2, whose end gives the
producer its next epoch. Source: TXN-5, TXN-13.
"""

from barnabas_broker.handlers.authorization import require
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.errors import KafkaError
from barnabas_protocol.messages.end_txn import EndTxnRequest, EndTxnResponse


async def handle(
    services: Services, in_flight: InFlightRequest, request: EndTxnRequest
) -> EndTxnResponse:
    """Decide the outcome; the response leaves when that is committed in the log."""
    require(
        services,
        in_flight,
        AclOperation.WRITE,
        AclResourceType.TRANSACTIONAL_ID,
        request.transactional_id,
    )
    return await services.transactions.end_transaction(request, in_flight.api_version)


def failed(request: EndTxnRequest, error: KafkaError) -> EndTxnResponse:
    """The error alone."""
    return EndTxnResponse(error_code=error.code)

"""MetadataPromise (20001, between brokers), version 0: obey no controller epoch below this one.

Source: rule 2 of the control plane; `docs/decisions/0005-metadata-log-by-pull.md`.
"""

from barnabas_broker.handlers.quorum_receiver import checked_quorum
from barnabas_broker.handlers.services import Services
from barnabas_broker.metadata.quorum_wire import promise_asked, promise_response
from barnabas_broker.network.session import Exchange
from barnabas_protocol.errors import KafkaError
from barnabas_protocol.messages.metadata_promise import (
    MetadataPromiseRequest,
    MetadataPromiseResponse,
)


async def handle(
    services: Services, exchange: Exchange, request: MetadataPromiseRequest
) -> MetadataPromiseResponse:
    """Promise, or tell the higher epoch that was promised before."""
    quorum = checked_quorum(services, request)
    return promise_response(await quorum.promise_asked(promise_asked(request)))


def failed(request: MetadataPromiseRequest, error: KafkaError) -> MetadataPromiseResponse:
    """The error alone."""
    return MetadataPromiseResponse(error_code=error.code)

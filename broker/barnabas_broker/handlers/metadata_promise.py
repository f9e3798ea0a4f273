"""MetadataPromise (20001, between brokers), version 0: obey no controller epoch below this one.

Source: rule 2 of the control plane; `docs/decisions/0005-metadata-log-by-pull.md`.
"""

from barnabas_broker.handlers.broker_listener import require_broker
from barnabas_broker.handlers.quorum_receiver import checked_quorum
from barnabas_broker.handlers.services import Services
from barnabas_broker.metadata.quorum.message_codec import (
    decode_promise_request,
    encode_promise_response,
)
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.errors import KafkaError
from barnabas_protocol.messages.metadata_promise import (
    MetadataPromiseRequest,
    MetadataPromiseResponse,
)


async def handle(
    services: Services, in_flight: InFlightRequest, request: MetadataPromiseRequest
) -> MetadataPromiseResponse:
    """Promise, or respond with the higher epoch that was promised before."""
    require_broker(services, in_flight, request.leader_id)
    quorum = checked_quorum(services, request)
    return encode_promise_response(await quorum.on_promise_request(decode_promise_request(request)))


def failed(request: MetadataPromiseRequest, error: KafkaError) -> MetadataPromiseResponse:
    """The error alone."""
    return MetadataPromiseResponse(error_code=error.code)

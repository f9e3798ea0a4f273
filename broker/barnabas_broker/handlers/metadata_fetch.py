"""MetadataFetch (20002, between brokers), version 0: records of the metadata log.

Held back as long as there is nothing new. Source: rules 3 and 5 of the control plane;
`docs/decisions/0005-metadata-log-by-pull.md`.
"""

from barnabas_broker.handlers.broker_listener import require_broker
from barnabas_broker.handlers.quorum_receiver import checked_quorum
from barnabas_broker.handlers.services import Services
from barnabas_broker.metadata.quorum.message_codec import (
    decode_fetch_request,
    encode_fetch_response,
)
from barnabas_broker.metadata.quorum.transport import FETCH_WAIT_MS_MAX
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.errors import KafkaError
from barnabas_protocol.messages.metadata_fetch import MetadataFetchRequest, MetadataFetchResponse


async def handle(
    services: Services, in_flight: InFlightRequest, request: MetadataFetchRequest
) -> MetadataFetchResponse:
    """Answer with records, where the logs part, a snapshot to load, or a refusal."""
    require_broker(services, in_flight, request.node_id)
    quorum = checked_quorum(services, request)
    wait_ms_max = max(0, min(request.max_wait_ms, FETCH_WAIT_MS_MAX))
    response, records = await quorum.on_fetch_request(decode_fetch_request(request), wait_ms_max)
    return encode_fetch_response(response, records)


def failed(request: MetadataFetchRequest, error: KafkaError) -> MetadataFetchResponse:
    """The error alone."""
    return MetadataFetchResponse(error_code=error.code)

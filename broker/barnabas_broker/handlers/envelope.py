"""Envelope (58, between brokers), version 0: a client's request that another broker has taken.

Carried out here if this node is the active controller, and never sent on: else two brokers with an
old view could send it to and fro. Envelopes do not wait for one another, so that the controller may
commit what they change together; the broker that sends them keeps the order of each connection. A
request is counted as an envelope and as what is inside.

Source: CTL-15, KIP-590.
"""

import logging
from typing import Any

from barnabas_broker.controller.channel import is_not_controller
from barnabas_broker.handlers.dispatch import (
    Api,
    carry_out,
    error_response,
    load_api,
    read_whole,
)
from barnabas_broker.handlers.forwarding import ForwardedRequest, unpacked_address
from barnabas_broker.handlers.services import Services
from barnabas_broker.handlers.table import FORWARDED, HANDLERS
from barnabas_broker.network.heavy_work import ConnectionGoneError
from barnabas_broker.network.session import InFlightRequest
from barnabas_broker.security.principal import ANONYMOUS, Principal
from barnabas_broker.security.principal_data import decode_principal
from barnabas_protocol import codec
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode, KafkaError, ParseError
from barnabas_protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from barnabas_protocol.schema import Message

logger = logging.getLogger(__name__)


def handle(services: Services, in_flight: InFlightRequest, request: EnvelopeRequest) -> None:
    """Answer with the whole response frame, later."""
    services.spawn(_answer(services, in_flight, request))


async def _answer(services: Services, in_flight: InFlightRequest, request: EnvelopeRequest) -> None:
    try:
        response = await _carried_out(services, in_flight, request)
    except ConnectionGoneError:
        return
    except (KafkaError, ParseError) as error:
        refusal = error if isinstance(error, KafkaError) else KafkaError(ErrorCode.INVALID_REQUEST)
        response = failed(request, refusal)
    except Exception:
        logger.exception("a request of another broker failed")
        response = failed(request, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
    if not in_flight.session.is_closed:
        key, version = in_flight.api_key, in_flight.api_version
        in_flight.reply([codec.encode_response(response, key, version, in_flight.correlation_id)])


async def _carried_out(
    services: Services, in_flight: InFlightRequest, request: EnvelopeRequest
) -> EnvelopeResponse:
    """The outcome of the request inside.

    Raises: KafkaError NOT_CONTROLLER, PRINCIPAL_DESERIALIZATION_FAILURE, INVALID_REQUEST,
    UNSUPPORTED_VERSION; ParseError.
    """
    if services.channel is not None and not services.channel.is_local:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)
    principal, host = _client_of(services, request)
    frame = memoryview(request.request_data)
    header = codec.read_request_header(frame)
    key, version = header.api_key, header.api_version
    if key not in FORWARDED or ApiKey(key) not in HANDLERS:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    api: Api = services.apis.get(key) or load_api(services.apis, key)
    if not api.min_version <= version <= api.max_version:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    if len(frame) > api.loop_bytes_max:
        inner_request = await services.heavy_work.run(
            in_flight, read_whole, api, frame, version, header.position
        )
    else:
        inner_request = read_whole(api, frame, version, header.position)
    api.requests_count += 1
    in_flight.inner_key = key
    inner = ForwardedRequest(
        in_flight.session,
        frame,
        in_flight.received_ns,
        principal=principal,
        host=host,
    )
    inner.api_key, inner.api_version = key, version
    inner.correlation_id, inner.client_id = header.correlation_id, header.client_id
    work = _response(api, services, inner, inner_request)
    request_time = services.quotas.request
    response = await (work if request_time is None else request_time.timed(inner, work))
    if not isinstance(response, Message):  # a frame, encoded in a thread
        return EnvelopeResponse(response_data=response)
    if request_time is not None:
        response = request_time.stamped(inner, response)
    if is_not_controller(response):
        raise KafkaError(ErrorCode.NOT_CONTROLLER)
    return EnvelopeResponse(
        response_data=codec.encode_response(response, key, version, header.correlation_id)
    )


def _client_of(services: Services, request: EnvelopeRequest) -> tuple[Principal, str]:
    """Whose request is inside, and where it came from.

    Without security a broker may be of an earlier release, which says neither.
    Raises: KafkaError PRINCIPAL_DESERIALIZATION_FAILURE, INVALID_REQUEST.
    """
    packed = bytes(request.client_host_address)
    host = unpacked_address(packed)
    is_open = services.authorizer is None and services.broker_identity.is_open
    try:
        principal = decode_principal(request.request_principal)
    except ParseError as error:
        if is_open and not request.request_principal:
            return ANONYMOUS, host
        raise KafkaError(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE) from error
    if not host and (packed or not is_open):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    return principal, host


async def _response(api: Api, services: Services, inner: InFlightRequest, request: Any) -> Any:
    try:
        return await carry_out(api, services, inner, request)
    except Exception as error:
        return error_response(api, request, error)


def failed(request: EnvelopeRequest, error: KafkaError) -> EnvelopeResponse:
    """The error of the envelope, not of what is inside."""
    return EnvelopeResponse(error_code=error.code)

"""A client's request that only the active controller may carry out, sent on to it.

The frame travels as it came, and what comes back is the whole response frame with the client's own
correlation id: nothing is encoded anew. What names its topics and would do harm when it is carried
out twice may be resolved first: from then on it means what the names stood for when it came.

The envelope says whose request it is and where it came from: so the controller judges (SEC-62).

Source: CTL-15, KIP-590.
"""

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from barnabas_broker.controller.channel import ControllerChannel
from barnabas_broker.env.disk import Buffer
from barnabas_broker.network.session import InFlightRequest, Session
from barnabas_broker.security.broker_identity import BrokerIdentity
from barnabas_broker.security.principal import Principal
from barnabas_broker.security.principal_data import encode_principal
from barnabas_protocol import codec
from barnabas_protocol.api import ApiKey, response_header_version
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.envelope import EnvelopeRequest
from barnabas_protocol.schema import Message

CarryOut = Callable[[InFlightRequest, Any], Awaitable[Any]]
"""What this node does with a request, if it is the controller by the time it would be sent."""
# Of what is forwarded; the others begin with it in all versions that are served.
_WITHOUT_THROTTLE: Final = (ApiKey.DESCRIBE_QUORUM,)


class ForwardedRequest(InFlightRequest):
    """A client's request that another broker has sent on: its session is that broker's.

    Gets no response itself, for the envelope does; its connection is not here to be muted. Who
    requests it, and from where, the envelope says.
    """

    __slots__ = ("_host", "_principal")

    def __init__(
        self,
        session: Session,
        frame: memoryview,
        received_ns: int,
        *,
        principal: Principal,
        host: str,
    ) -> None:
        super().__init__(session, frame, received_ns)
        self._principal = principal
        self._host = host

    @property
    def principal(self) -> Principal:
        """Whose connection to the other broker it came by."""
        return self._principal

    @property
    def host(self) -> str:
        """The address of the client, which is connected to the other broker."""
        return self._host


def is_by_broker(identity: BrokerIdentity, in_flight: InFlightRequest) -> bool:
    """Whether a broker itself requests this; what is in an envelope is a client's."""
    return not isinstance(in_flight, ForwardedRequest) and identity.is_broker(
        in_flight.session.listener_name, in_flight.principal
    )


class ForwardedFrame(NamedTuple):
    """The response frame of the controller; None if that is this node by now.

    `was_repeated`: an earlier attempt may have been carried out.
    """

    frame: Buffer | None
    was_repeated: bool


class Resolution(Protocol):
    """A request in a form in which it is harmless to carry it out twice, or late."""

    version: int

    @property
    def request(self) -> Any:
        """The request, in `version`."""
        ...

    def take(self, response: Any, *, was_repeated: bool) -> Any:
        """Take its response; what is left to be sent once, as the client named it, or None."""
        ...

    def response(self, rest: Any) -> Any:
        """The response to the client's request, with the response to what was left, or None."""
        ...


class Split(NamedTuple):
    """A request of which the node does a part that has received it; `rest` may be None."""

    here: Any
    rest: Any
    joined: Callable[[Any, Any], Any]
    """The response, made of both."""


async def forward(
    channel: ControllerChannel,
    in_flight: InFlightRequest,
    frame: Buffer,
    timeout_ms: int,
    *,
    is_repeatable: bool,
) -> ForwardedFrame:
    """The response of the controller to a client's request.

    The task that runs this is cancelled if the client leaves: else clients that come and go would
    leave any number of them waiting for a controller.
    Raises: KafkaError: REQUEST_TIMED_OUT, or why the controller did not take the request.
    """
    task = asyncio.current_task()
    assert task is not None
    in_flight.on_closed(partial(_cancel, task))
    envelope = EnvelopeRequest(
        request_data=frame,
        request_principal=encode_principal(in_flight.principal),
        client_host_address=packed_address(in_flight.host),
    )
    try:
        response, was_repeated = await channel.forward(
            envelope, timeout_ms=timeout_ms, is_repeatable=is_repeatable
        )
    finally:
        in_flight.on_abandoned = None
    if response is None:
        return ForwardedFrame(None, was_repeated)
    if response.error_code != ErrorCode.NONE or response.response_data is None:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the controller did not take the request")
    return ForwardedFrame(response.response_data, was_repeated)


async def forward_resolved(
    channel: ControllerChannel,
    in_flight: InFlightRequest,
    resolution: Resolution,
    timeout_ms: int,
    carry_out: CarryOut,
) -> Any:
    """The response to a client's request that was resolved; `carry_out` is for this node.

    Raises: KafkaError, as `forward`.
    """

    async def send(request: Any, *, is_repeatable: bool) -> tuple[Any, bool]:
        return await forward_message(
            channel,
            in_flight,
            request,
            timeout_ms,
            carry_out,
            version=resolution.version,
            is_repeatable=is_repeatable,
        )

    response, was_repeated = await send(resolution.request, is_repeatable=True)
    rest = resolution.take(response, was_repeated=was_repeated)
    if rest is not None:
        rest, _ = await send(rest, is_repeatable=False)
    return resolution.response(rest)


async def forward_message(
    channel: ControllerChannel,
    in_flight: InFlightRequest,
    request: Any,
    timeout_ms: int,
    carry_out: CarryOut,
    *,
    version: int,
    is_repeatable: bool,
) -> tuple[Any, bool]:
    """The response to a request that is made of a client's, and whether it was sent repeatedly.

    Raises: KafkaError, as `forward`.
    """
    key = in_flight.api_key
    frame = memoryview(
        codec.encode_request(request, key, version, in_flight.correlation_id, in_flight.client_id)
    )
    forwarded = await forward(channel, in_flight, frame, timeout_ms, is_repeatable=is_repeatable)
    if forwarded.frame is not None:
        return codec.decode_response(forwarded.frame, key, version)[1], forwarded.was_repeated
    inner = InFlightRequest(in_flight.session, frame, in_flight.received_ns)
    inner.api_key, inner.api_version = key, version
    inner.correlation_id, inner.client_id = in_flight.correlation_id, in_flight.client_id
    return await carry_out(inner, request), forwarded.was_repeated


def throttle_time_ms(in_flight: InFlightRequest, response: Any) -> int:
    """How long the response to a forwarded request, a message or a frame, has its client wait."""
    if isinstance(response, Message):
        return int(getattr(response, "throttle_time_ms", 0))
    if in_flight.api_key in _WITHOUT_THROTTLE:
        return 0
    has_tags = response_header_version(in_flight.api_key, in_flight.api_version)
    return int.from_bytes(response[5:9] if has_tags else response[4:8])


def _cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()


def packed_address(host: str) -> bytes:
    """The bytes of a client's address, as an envelope has them; none of what is no address."""
    try:
        return ipaddress.ip_address(host).packed
    except ValueError:
        return b""


def unpacked_address(packed: bytes) -> str:
    """The client's address in an envelope; empty where it has none."""
    try:
        return str(ipaddress.ip_address(packed))
    except ValueError:
        return ""

"""One connection as a pure machine: requests in, buffers out; frames in, answers out.

No sockets and no clock; the shell is `connection.py`. `Tag` is whatever the caller wants back with
the answer, for the shell a future.

Invariants:
- Answers match requests in order (CLI-3); one that does not is fatal for the connection.
- Nothing of a caller's is sent before the handshake is through, nor during a re-authentication,
  nor above `in_flight_max`, nor before a throttle time has passed (KIP-219).
- A Produce with acks=0 has no answer and is never in flight.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Generic, NamedTuple, TypeVar

from barnabas_client.errors import ClientBrokenError, DisconnectedError, UsageError
from barnabas_client.network.handshake import Handshake, Step
from barnabas_client.network.sasl import SaslExchange
from barnabas_client.network.served_apis import CLIENT_THROTTLES_FROM, ServedApis, api_of
from barnabas_protocol import codec
from barnabas_protocol.api import ApiKey, request_header_version
from barnabas_protocol.errors import ErrorCode, ParseError
from barnabas_protocol.messages.api_versions import ApiVersionsResponse
from barnabas_protocol.messages.produce import ProduceRequest
from barnabas_protocol.schema import Buffer, Message

Tag = TypeVar("Tag")

REAUTHENTICATE_AT: Final = 0.85
"""The part of a session's lifetime after which the log-in is repeated; Java: 85 to 95 %."""

_CORRELATION_ID: Final = struct.Struct(">i")
_SIZE_AND_MORE: Final = struct.Struct(">i")
_CORRELATION_MAX: Final = (1 << 31) - 1


class InFlight(NamedTuple, Generic[Tag]):
    """A request that waits for its answer; `tag` is None for the handshake's own."""

    correlation_id: int
    key: int
    version: int
    deadline_ms: int
    tag: Tag | None


class Answer(NamedTuple, Generic[Tag]):
    """What came for a request: the message, or why it cannot be read."""

    tag: Tag
    response: Any


class ConnectionState(Generic[Tag]):
    """Everything that one connection remembers."""

    def __init__(
        self,
        *,
        client_id: str | None,
        software_version: str,
        in_flight_max: int,
        create_exchange: Callable[[], SaslExchange] | None = None,
    ) -> None:
        self.in_flight: deque[InFlight[Tag]] = deque()
        self.is_open = False
        """Whether the handshake is through and no re-authentication is under way."""
        self.throttled_until_ms = 0
        self.reauthenticate_at_ms: int | None = None
        self.has_served = False
        """Whether a request of a caller's has been answered."""
        self._in_flight_max = in_flight_max
        self._client_id = None if client_id is None else client_id.encode()
        self._handshake = Handshake(software_version, create_exchange)
        self._handshake_deadline_ms = 0
        self._correlation_id = 0
        self._headers: dict[int, struct.Struct] = {}

    @property
    def served(self) -> ServedApis:
        """What the broker serves; empty before the handshake is through."""
        return self._handshake.served

    @property
    def earliest_deadline_ms(self) -> int | None:
        """When the first of the requests in flight times out; None if there is none."""
        return min((entry.deadline_ms for entry in self.in_flight), default=None)

    def can_send(self, now_ms: int) -> bool:
        """Whether a caller's request may go out now."""
        return (
            self.is_open
            and len(self.in_flight) < self._in_flight_max
            and now_ms >= self.throttled_until_ms
        )

    def begin(self, deadline_ms: int) -> list[Buffer]:
        """The first bytes of a new connection; its handshake must be through at the deadline."""
        self._handshake_deadline_ms = deadline_ms
        return self._send_step(self._handshake.begin())

    def begin_reauthentication(self, deadline_ms: int) -> list[Buffer]:
        """Log in again on the live connection (KIP-368); callers wait until it is done."""
        self.is_open = False
        self.reauthenticate_at_ms = None
        self._handshake_deadline_ms = deadline_ms
        return self._send_step(self._handshake.begin_again())

    def send(
        self, request: Message, version: int, deadline_ms: int, tag: Tag
    ) -> tuple[list[Buffer], bool]:
        """The bytes of a request, and whether it has an answer; only while `can_send`.

        Raises: UsageError if a field holds something that cannot be written; nothing is sent then.
        """
        key = api_of(request)
        buffers, correlation_id = self._encode(request, key, version)
        if key == ApiKey.PRODUCE and isinstance(request, ProduceRequest) and request.acks == 0:
            return buffers, False
        self.in_flight.append(InFlight(correlation_id, key, version, deadline_ms, tag))
        return buffers, True

    def receive(self, frame: memoryview, now_ms: int) -> tuple[Answer[Tag] | None, list[Buffer]]:
        """The caller's answer in a frame, and what the handshake sends in return.

        Raises: DisconnectedError or ClientBrokenError if the frame is not the next answer, or
        what the handshake's end is: AuthenticationError, UnsupportedError.
        """
        if not self.in_flight:
            raise DisconnectedError("it answered although nothing was asked")
        entry = self.in_flight[0]
        if len(frame) < _CORRELATION_ID.size:
            raise DisconnectedError("its answer has no correlation id")
        (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
        if correlation_id != entry.correlation_id:
            raise DisconnectedError(
                f"it answered with correlation id {correlation_id} where "
                f"{entry.correlation_id} was due"
            )
        if entry.tag is None:
            self.in_flight.popleft()
            return None, self._continue_handshake(entry, frame, now_ms)
        try:
            _, response = codec.decode_response(frame, entry.key, entry.version)
        except ParseError as error:
            raise ClientBrokenError(
                f"its answer to {ApiKey(entry.key).name} version {entry.version} is malformed: "
                f"{error}"
            ) from error
        self.in_flight.popleft()
        self.has_served = True
        throttle_ms = getattr(response, "throttle_time_ms", 0)
        if throttle_ms > 0:
            self._throttle(entry, throttle_ms, now_ms)
        return Answer(entry.tag, response), []

    def _throttle(self, entry: InFlight[Tag], throttle_ms: int, now_ms: int) -> None:
        if entry.version >= CLIENT_THROTTLES_FROM.get(entry.key, 0):
            self.throttled_until_ms = max(self.throttled_until_ms, now_ms + throttle_ms)

    def _continue_handshake(
        self, entry: InFlight[Tag], frame: memoryview, now_ms: int
    ) -> list[Buffer]:
        try:
            response = _decode_handshake(frame, entry.key, entry.version)
        except ParseError as error:
            raise ClientBrokenError(
                f"its answer to {ApiKey(entry.key).name} is malformed: {error}"
            ) from error
        step = self._handshake.answer(response)
        if step is not None:
            return self._send_step(step)
        self.is_open = True
        lifetime_ms = self._handshake.session_lifetime_ms
        if lifetime_ms > 0:
            self.reauthenticate_at_ms = now_ms + int(lifetime_ms * REAUTHENTICATE_AT)
        return []

    def _send_step(self, step: Step) -> list[Buffer]:
        request, version = step
        key = api_of(request)
        buffers, correlation_id = self._encode(request, key, version)
        self.in_flight.append(
            InFlight(correlation_id, key, version, self._handshake_deadline_ms, None)
        )
        return buffers

    def _encode(self, request: Message, key: int, version: int) -> tuple[list[Buffer], int]:
        correlation_id = self._correlation_id
        self._correlation_id = 0 if correlation_id == _CORRELATION_MAX else correlation_id + 1
        header_version = request_header_version(key, version)
        header = self._headers.get(header_version)
        if header is None:
            header = self._headers[header_version] = self._header(header_version)
        text = self._client_id
        if text is None:
            head = bytearray(header.pack(0, key, version, correlation_id, -1))
        else:
            head = bytearray(header.pack(0, key, version, correlation_id, len(text), text))
        try:
            buffers = codec.encode_parts(request, version, head)
        except (AttributeError, TypeError, ValueError, struct.error) as error:
            # Something that a caller gave has a type or a size that cannot be sent.
            raise UsageError(
                f"a {ApiKey(key).name} request cannot be made of what was given: {error}"
            ) from error
        _SIZE_AND_MORE.pack_into(head, 0, sum(map(len, buffers)) - 4)
        return buffers, correlation_id

    def _header(self, header_version: int) -> struct.Struct:
        text = "" if self._client_id is None else f"{len(self._client_id)}s"
        tags = "x" if header_version > 1 else ""
        return struct.Struct(f">ihhih{text}{tags}")


def _decode_handshake(frame: memoryview, key: int, version: int) -> Any:
    """Read an answer of the handshake; a refused ApiVersions is answered in version 0."""
    if key == ApiKey.API_VERSIONS and len(frame) >= 6 and version > 0:
        code = int.from_bytes(frame[4:6], "big", signed=True)
        if code == ErrorCode.UNSUPPORTED_VERSION:
            answer, _ = codec.decode(ApiVersionsResponse, frame, 0, _CORRELATION_ID.size)
            return answer
    return codec.decode_response(frame, key, version)[1]

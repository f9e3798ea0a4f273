"""The client's side of a connection: requests in, bytes out; bytes in, events out.

    send                               a request in, its bytes out
    receiver.buffer, receiver.received bytes in
    next_event, until None             what has come of them

No sockets and no clock. `Tag` is whatever the caller wants back with the response, for an asyncio
shell a future. Without a `Handshake` the connection may be used at once, as between brokers that
know one another's versions.

Invariants:
- Responses match requests in order (CLI-3); one that does not is fatal for the connection.
- Nothing of a caller's is sent before the handshake is through, nor during a re-authentication,
  nor above `in_flight_max`, nor before a throttle time has passed (KIP-219).
- A Produce with acks=0 has no response and is never in flight.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from barnabas_protocol import codec
from barnabas_protocol.api import ApiKey, request_header_version
from barnabas_protocol.connection import api_versions
from barnabas_protocol.connection.api_versions import NodeApiVersions
from barnabas_protocol.connection.framing import FrameReceiver
from barnabas_protocol.connection.sasl.mechanism import HashingNeeded
from barnabas_protocol.errors import ParseError
from barnabas_protocol.schema import Buffer, Message

if TYPE_CHECKING:
    from barnabas_protocol.connection.handshake import Handshake, Step

Tag = TypeVar("Tag")

REAUTHENTICATE_AT: Final = 0.85
"""The part of a session's lifetime after which the log-in is repeated; Java: 85 to 95 %."""

_CORRELATION_ID: Final = struct.Struct(">i")
_SIZE: Final = struct.Struct(">i")
_CORRELATION_MAX: Final = (1 << 31) - 1
_NO_VERSIONS: Final = NodeApiVersions()
# Plain numbers, and tuples made without their classes' own constructors: both are on the hot path.
_PRODUCE: Final = int(ApiKey.PRODUCE)
_API_VERSIONS: Final = int(ApiKey.API_VERSIONS)
_new_tuple: Final = tuple.__new__


class LocalProtocolError(Exception):
    """A request cannot be made of what the caller gave; nothing is sent."""


class RemoteProtocolError(Exception):
    """What the server sent is not what was due; nothing behind it can be trusted."""


class MalformedResponseError(RemoteProtocolError):
    """The response to the first request in flight cannot be read; the request is still there."""


class InFlight(NamedTuple, Generic[Tag]):
    """A request that waits for its response; `tag` is None for the handshake's own."""

    correlation_id: int
    key: int
    version: int
    deadline_ms: int
    tag: Tag | None


class ResponseReceived(NamedTuple, Generic[Tag]):
    """The response to a caller's request."""

    tag: Tag
    response: Any


class HandshakeContinues(NamedTuple):
    """The handshake goes on: these buffers are to be sent."""

    buffers: list[Buffer]


class HandshakeHashes(NamedTuple):
    """The handshake goes on with `provide` once a password is hashed, which takes long."""

    compute: Callable[[], bytes]


class HandshakeCompleted(NamedTuple):
    """The connection may be used, for the first time or after a re-authentication."""


Event: TypeAlias = ResponseReceived[Tag] | HandshakeContinues | HandshakeHashes | HandshakeCompleted


class ClientConnection(Generic[Tag]):
    """Everything that one connection remembers."""

    def __init__(
        self,
        receiver: FrameReceiver,
        *,
        client_id: str | None,
        in_flight_max: int,
        handshake: Handshake | None = None,
        waits_out_throttles: bool = True,
    ) -> None:
        """Make one for a new connection.

        Quotas are for clients: a broker does not wait out the throttle times of another.
        """
        self.receiver = receiver
        self.in_flight: deque[InFlight[Tag]] = deque()
        self.is_open = handshake is None
        """Whether the handshake is through and no re-authentication is under way."""
        self.throttled_until_ms = 0
        self.reauthenticate_at_ms: int | None = None
        self.has_served = False
        """Whether a request of a caller's has got its response."""
        self._in_flight_max = in_flight_max
        self._client_id = None if client_id is None else client_id.encode()
        self._handshake = handshake
        self._handshake_deadline_ms = 0
        self._correlation_id = 0
        self._headers: dict[tuple[int, int], struct.Struct] = {}
        self._waits_out_throttles = waits_out_throttles

    @property
    def versions(self) -> NodeApiVersions:
        """What the server serves; empty before the handshake is through."""
        return _NO_VERSIONS if self._handshake is None else self._handshake.versions

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
        assert self._handshake is not None
        self._handshake_deadline_ms = deadline_ms
        return self._send_step(self._handshake.begin())

    def begin_reauthentication(self, deadline_ms: int) -> list[Buffer]:
        """Log in again on the live connection (KIP-368); callers wait until it is done."""
        assert self._handshake is not None
        self.is_open = False
        self.reauthenticate_at_ms = None
        self._handshake_deadline_ms = deadline_ms
        return self._send_step(self._handshake.begin_again())

    def provide(self, hashed: bytes) -> list[Buffer]:
        """The bytes with which the handshake goes on after HandshakeHashes."""
        assert self._handshake is not None
        return self._send_step(self._handshake.provide(hashed))

    def send(
        self, request: Message, version: int, tag: Tag, deadline_ms: int = 0
    ) -> tuple[list[Buffer], bool]:
        """The bytes of a request, and whether it has a response; only while `can_send`.

        The deadline is kept for those who look at `earliest_deadline_ms`.

        Raises: LocalProtocolError if a field holds something that cannot be written.
        """
        key = codec.api_key_of(type(request))
        buffers, correlation_id = self._encode(request, key, version)
        if key == _PRODUCE and getattr(request, "acks", None) == 0:
            return buffers, False
        self.in_flight.append(
            _new_tuple(InFlight, (correlation_id, key, version, deadline_ms, tag))
        )
        return buffers, True

    def next_event(self, now_ms: int) -> Event[Tag] | None:
        """What has come, one event at a time; None when more must arrive first.

        Raises: FrameError, RemoteProtocolError, or what ends the handshake: HandshakeError, or
        what the SASL mechanism raises. The connection is to be given up then.
        """
        frame = self.receiver.next_frame()
        if frame is None:
            self.receiver.keep()
            return None
        if not self.in_flight:
            raise RemoteProtocolError("a response came although no request is in flight")
        entry = self.in_flight[0]
        if len(frame) < _CORRELATION_ID.size:
            raise RemoteProtocolError("a response has no correlation id")
        (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
        if correlation_id != entry.correlation_id:
            raise RemoteProtocolError(
                f"a response has correlation id {correlation_id} where "
                f"{entry.correlation_id} was due"
            )
        try:
            if entry.key == _API_VERSIONS:
                response = api_versions.decode_response(frame, entry.version)
            else:
                _, response = codec.decode_response(frame, entry.key, entry.version)
        except ParseError as error:
            raise MalformedResponseError(
                f"the response to {ApiKey(entry.key).name} version {entry.version} is malformed: "
                f"{error}"
            ) from error
        self.in_flight.popleft()
        if entry.tag is None:
            return self._continue_handshake(response, now_ms)
        self.has_served = True
        if self._waits_out_throttles:
            throttle_ms = getattr(response, "throttle_time_ms", 0)
            if throttle_ms > 0:
                self._throttle(entry, throttle_ms, now_ms)
        return _new_tuple(ResponseReceived, (entry.tag, response))

    def _throttle(self, entry: InFlight[Tag], throttle_ms: int, now_ms: int) -> None:
        if entry.version >= CLIENT_THROTTLES_FROM.get(entry.key, 0):
            self.throttled_until_ms = max(self.throttled_until_ms, now_ms + throttle_ms)

    def _continue_handshake(
        self, response: Any, now_ms: int
    ) -> HandshakeContinues | HandshakeHashes | HandshakeCompleted:
        handshake = self._handshake
        assert handshake is not None
        step = handshake.receive(response)
        if isinstance(step, HashingNeeded):
            return HandshakeHashes(step.compute)
        if step is not None:
            return HandshakeContinues(self._send_step(step))
        self.is_open = True
        lifetime_ms = handshake.session_lifetime_ms
        if lifetime_ms > 0:
            self.reauthenticate_at_ms = now_ms + int(lifetime_ms * REAUTHENTICATE_AT)
        return HandshakeCompleted()

    def _send_step(self, step: Step) -> list[Buffer]:
        request, version = step
        key = codec.api_key_of(type(request))
        buffers, correlation_id = self._encode(request, key, version)
        self.in_flight.append(
            InFlight(correlation_id, key, version, self._handshake_deadline_ms, None)
        )
        return buffers

    def _encode(self, request: Message, key: int, version: int) -> tuple[list[Buffer], int]:
        correlation_id = self._correlation_id
        self._correlation_id = 0 if correlation_id == _CORRELATION_MAX else correlation_id + 1
        header = self._headers.get((key, version))
        if header is None:
            header = self._headers[key, version] = self._header(key, version)
        text = self._client_id
        if text is None:
            head = bytearray(header.pack(0, key, version, correlation_id, -1))
        else:
            head = bytearray(header.pack(0, key, version, correlation_id, len(text), text))
        try:
            buffers = codec.encode_parts(request, version, head)
        except (AttributeError, TypeError, ValueError, struct.error) as error:
            # Something that a caller gave has a type or a size that cannot be sent.
            raise LocalProtocolError(
                f"a {ApiKey(key).name} request cannot be made of what was given: {error}"
            ) from error
        size = len(head) if len(buffers) == 1 else sum(map(len, buffers))
        _SIZE.pack_into(head, 0, size - _SIZE.size)
        return buffers, correlation_id

    def _header(self, key: int, version: int) -> struct.Struct:
        text = "" if self._client_id is None else f"{len(self._client_id)}s"
        tags = "x" if request_header_version(key, version) > 1 else ""
        return struct.Struct(f">ihhih{text}{tags}")


CLIENT_THROTTLES_FROM: Final[dict[int, int]] = {
    ApiKey.PRODUCE: 6,
    ApiKey.FETCH: 8,
    ApiKey.LIST_OFFSETS: 3,
    ApiKey.METADATA: 6,
    ApiKey.OFFSET_COMMIT: 4,
    ApiKey.OFFSET_FETCH: 4,
    ApiKey.FIND_COORDINATOR: 2,
    ApiKey.JOIN_GROUP: 3,
    ApiKey.HEARTBEAT: 2,
    ApiKey.LEAVE_GROUP: 2,
    ApiKey.SYNC_GROUP: 2,
    ApiKey.DESCRIBE_GROUPS: 2,
    ApiKey.LIST_GROUPS: 2,
    ApiKey.API_VERSIONS: 2,
    ApiKey.CREATE_TOPICS: 3,
    ApiKey.DELETE_TOPICS: 2,
    ApiKey.DELETE_RECORDS: 1,
    ApiKey.INIT_PRODUCER_ID: 1,
    ApiKey.ADD_PARTITIONS_TO_TXN: 1,
    ApiKey.ADD_OFFSETS_TO_TXN: 1,
    ApiKey.END_TXN: 1,
    ApiKey.TXN_OFFSET_COMMIT: 1,
    ApiKey.DESCRIBE_CONFIGS: 2,
    ApiKey.ALTER_CONFIGS: 1,
    ApiKey.DESCRIBE_LOG_DIRS: 1,
    ApiKey.CREATE_PARTITIONS: 1,
    ApiKey.DELETE_GROUPS: 1,
}
"""The first version whose throttle time the client waits out; before, the broker has waited
(KIP-219). Other APIs throttle in all their versions."""

"""The client's side of a connection: requests in, bytes out; bytes in, events out."""

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas_protocol import codec
from barnabas_protocol.api import KNOWN, ApiKey
from barnabas_protocol.connection.api_versions import unsupported_version_response
from barnabas_protocol.connection.client import (
    CLIENT_THROTTLES_FROM,
    REAUTHENTICATE_AT,
    ClientConnection,
    HandshakeCompleted,
    HandshakeContinues,
    LocalProtocolError,
    MalformedResponseError,
    RemoteProtocolError,
    ResponseReceived,
)
from barnabas_protocol.connection.framing import FrameError, FrameReceiver, SharedBuffer
from barnabas_protocol.connection.handshake import Handshake, HandshakeError, Refusal
from barnabas_protocol.connection.sasl import PlainSaslClient
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
)
from barnabas_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from barnabas_protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from barnabas_protocol.messages.sasl_handshake import SaslHandshakeResponse
from barnabas_protocol.schema import Buffer, Message

HEARTBEAT = HeartbeatRequest(group_id="g", member_id="m")
DEADLINE_MS = 1000


SHARED = SharedBuffer()


def feed(connection: ClientConnection[str], data: bytes, now_ms: int = 0) -> list[Any]:
    """The events that some bytes lead to."""
    receiver = connection.receiver
    receiver.buffer()[: len(data)] = data
    receiver.received(len(data))
    events = []
    while (event := connection.next_event(now_ms)) is not None:
        events.append(event)
    return events


def framed(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


class Server:
    """The server's side: reads what the connection sends, responds in order."""

    def __init__(self, connection: ClientConnection[str]) -> None:
        self.connection = connection
        self.requests: list[codec.RequestHeader] = []

    def read(self, buffers: list[Buffer]) -> codec.RequestHeader:
        """Take one request; its size must be right."""
        data = b"".join(bytes(buffer) for buffer in buffers)
        (size,) = struct.unpack_from(">i", data)
        assert size == len(data) - 4
        header = codec.read_request_header(data[4:])
        self.requests.append(header)
        return header

    def frame(self, message: Message) -> bytes:
        """The response to the oldest request."""
        header = self.requests.pop(0)
        return codec.encode_response(
            message, header.api_key, header.api_version, header.correlation_id
        )

    def respond(self, message: Message, now_ms: int = 0) -> Any:
        """Respond to the oldest request; return the event that it leads to."""
        (event,) = feed(self.connection, framed(self.frame(message)), now_ms)
        if isinstance(event, HandshakeContinues):
            self.read(event.buffers)
        return event


def versions(**more: Any) -> ApiVersionsResponse:
    rows = [
        ApiVersion(api_key=key, min_version=low, max_version=high)
        for key, (low, high) in KNOWN.items()
    ]
    return ApiVersionsResponse(api_keys=rows, **more)


def fresh(*, login: bool = False, in_flight_max: int = 5) -> tuple[ClientConnection[str], Server]:
    connection = ClientConnection[str](
        FrameReceiver(SHARED, 1_000_000),
        client_id="client",
        in_flight_max=in_flight_max,
        handshake=Handshake(
            "barnabas", "1.0", (lambda: PlainSaslClient("u", "p")) if login else None
        ),
    )
    server = Server(connection)
    server.read(connection.begin(DEADLINE_MS))
    return connection, server


def ready(**more: Any) -> tuple[ClientConnection[str], Server]:
    connection, server = fresh(**more)
    assert server.respond(versions()) == HandshakeCompleted()
    assert connection.can_send(0)
    return connection, server


def send(connection: ClientConnection[str], server: Server, tag: str) -> None:
    buffers, has_response = connection.send(HEARTBEAT, 4, tag, DEADLINE_MS)
    assert has_response
    server.read(buffers)


def test_nothing_is_sent_before_the_versions_are_known() -> None:
    """KIP-511: ApiVersions comes first, under our name."""
    connection, server = fresh()
    assert not connection.can_send(0)
    assert server.requests[0].api_key == ApiKey.API_VERSIONS
    assert server.requests[0].client_id == "client"
    assert server.respond(versions()) == HandshakeCompleted()
    assert connection.can_send(0)
    assert connection.versions.newest(ApiKey.FETCH) == KNOWN[ApiKey.FETCH][1]


def test_without_a_handshake_it_may_be_used_at_once() -> None:
    """Brokers know one another's versions by the release; quotas are not for them."""
    connection = ClientConnection[str](
        FrameReceiver(SHARED, 1_000),
        client_id=None,
        in_flight_max=5,
        waits_out_throttles=False,
    )
    server = Server(connection)
    send(connection, server, "a")
    assert server.requests[0].client_id is None
    server.respond(HeartbeatResponse(throttle_time_ms=50))
    assert connection.can_send(0)
    assert not connection.versions.ranges


def test_responses_match_requests_in_order() -> None:
    """CLI-3."""
    connection, server = ready()
    for tag in "abc":
        send(connection, server, tag)
    assert [entry.tag for entry in connection.in_flight] == ["a", "b", "c"]
    assert connection.earliest_deadline_ms == DEADLINE_MS
    for tag in "abc":
        response = HeartbeatResponse(error_code=ErrorCode.NONE)
        assert server.respond(response) == ResponseReceived(tag, response)
    assert connection.earliest_deadline_ms is None


def test_a_response_out_of_order_is_fatal() -> None:
    """CLI-3: nothing after it can be trusted."""
    connection, server = ready()
    send(connection, server, "a")
    send(connection, server, "b")
    server.requests.pop(0)
    with pytest.raises(RemoteProtocolError, match="correlation id"):
        server.respond(HeartbeatResponse())


def test_a_response_without_a_request_is_fatal() -> None:
    """As is one that is too short to have a correlation id."""
    connection, server = ready()
    with pytest.raises(RemoteProtocolError, match="no request is in flight"):
        feed(connection, framed(b"\0\0\0\7"))
    send(connection, server, "a")
    with pytest.raises(RemoteProtocolError, match="no correlation id"):
        feed(connection, framed(b"\0"))


def test_the_request_of_a_malformed_response_stays_at_the_head() -> None:
    """So that the shell can fail the right one."""
    connection, server = ready()
    send(connection, server, "a")
    whole = server.frame(HeartbeatResponse())
    with pytest.raises(MalformedResponseError, match="HEARTBEAT version 4"):
        feed(connection, framed(whole[:-1]))
    assert connection.in_flight[0].tag == "a"


def test_an_oversize_response_is_refused() -> None:
    """By its size alone."""
    connection, server = ready()
    send(connection, server, "a")
    with pytest.raises(FrameError):
        feed(connection, struct.pack(">i", 1_000_001))


def test_what_cannot_be_sent_is_the_callers_fault_and_sends_nothing() -> None:
    """The connection goes on."""
    connection, server = ready()
    with pytest.raises(LocalProtocolError, match="HEARTBEAT"):
        connection.send(HeartbeatRequest(group_id=7), 4, "a")  # type: ignore[arg-type]
    assert not connection.in_flight
    send(connection, server, "b")
    assert server.respond(HeartbeatResponse()).tag == "b"


def test_no_more_than_the_limit_are_in_flight() -> None:
    """CLI-2."""
    connection, server = ready(in_flight_max=2)
    send(connection, server, "a")
    assert connection.can_send(0)
    send(connection, server, "b")
    assert not connection.can_send(0)
    server.respond(HeartbeatResponse())
    assert connection.can_send(0)


def test_a_throttle_time_holds_callers_back() -> None:
    """KIP-219; the longest of several counts."""
    connection, server = ready()
    send(connection, server, "a")
    send(connection, server, "b")
    server.respond(HeartbeatResponse(throttle_time_ms=50), now_ms=10)
    server.respond(HeartbeatResponse(throttle_time_ms=5), now_ms=20)
    assert not connection.can_send(59)
    assert connection.can_send(60)


def test_old_versions_have_been_throttled_by_the_broker() -> None:
    """KIP-219: before Heartbeat 2 the response itself was late."""
    connection, server = ready()
    buffers, _ = connection.send(HEARTBEAT, 1, "a")
    server.read(buffers)
    server.respond(HeartbeatResponse(throttle_time_ms=50), now_ms=10)
    assert connection.can_send(10)


def test_throttling_begins_with_a_version_that_has_a_throttle_time() -> None:
    """KIP-219 came after the field."""
    for key, version in CLIENT_THROTTLES_FROM.items():
        fields = {field.name: field for field in codec.response_class(key).__fields__}
        assert fields["throttle_time_ms"].exists_in(version)


def test_a_produce_without_acks_is_never_in_flight() -> None:
    """acks=0: there is no response to wait for, and batches go out as they were given."""
    connection, server = ready()
    batch = memoryview(bytes(1000))
    data = [PartitionProduceData(index=0, records=batch)]
    request = ProduceRequest(
        acks=0, timeout_ms=1, topic_data=[TopicProduceData(name="t", partition_data=data)]
    )
    buffers, has_response = connection.send(request, 9, "a")
    assert not has_response
    assert any(buffer is batch for buffer in buffers)
    assert server.read(buffers).api_key == ApiKey.PRODUCE
    assert not connection.in_flight


def test_features_count_only_with_an_epoch() -> None:
    """KIP-584; transactions of the second kind depend on it."""
    features = [FinalizedFeatureKey(name="transaction.version", max_version_level=2)]
    for epoch, expected in ((-1, {}), (3, {"transaction.version": 2})):
        connection, server = fresh()
        server.respond(versions(finalized_features=features, finalized_features_epoch=epoch))
        assert connection.versions.features == expected


def test_an_unknown_version_of_api_versions_is_requested_again_in_one_that_is_known() -> None:
    """KIP-511."""
    connection, server = fresh()
    header = server.requests[0]
    refusal = codec.encode_response(
        unsupported_version_response(0, 2), ApiKey.API_VERSIONS, 0, header.correlation_id
    )
    server.requests.clear()
    (event,) = feed(connection, framed(refusal))
    assert server.read(event.buffers).api_version == 2
    assert server.respond(versions()) == HandshakeCompleted()


def log_in(server: Server, now_ms: int, lifetime_ms: int) -> None:
    """Respond to the two steps of a log-in."""
    assert server.requests[-1].api_key == ApiKey.SASL_HANDSHAKE
    server.respond(SaslHandshakeResponse(), now_ms)
    assert server.requests[-1].api_key == ApiKey.SASL_AUTHENTICATE
    server.respond(SaslAuthenticateResponse(session_lifetime_ms=lifetime_ms), now_ms)


def test_the_log_in_comes_before_everything_else() -> None:
    """KIP-152."""
    connection, server = fresh(login=True)
    server.respond(versions())
    assert not connection.can_send(0)
    log_in(server, 100, 0)
    assert connection.can_send(100)
    assert connection.reauthenticate_at_ms is None


def test_the_log_in_is_repeated_within_the_sessions_lifetime() -> None:
    """KIP-368: behind what is in flight, and callers wait until it is through."""
    connection, server = fresh(login=True)
    server.respond(versions())
    log_in(server, 100, 1000)
    assert connection.reauthenticate_at_ms == 100 + int(1000 * REAUTHENTICATE_AT)
    send(connection, server, "a")
    server.read(connection.begin_reauthentication(DEADLINE_MS))
    assert not connection.can_send(950)
    assert server.respond(HeartbeatResponse()).tag == "a"
    log_in(server, 960, 1000)
    assert connection.can_send(960)
    assert connection.reauthenticate_at_ms == 960 + int(1000 * REAUTHENTICATE_AT)


@pytest.mark.parametrize(
    ("responses", "refusal", "code"),
    [
        ([SaslHandshakeResponse(error_code=33, mechanisms=["X"])], Refusal.MECHANISM, 33),
        ([SaslHandshakeResponse(error_code=34)], Refusal.NOT_A_SASL_LISTENER, 34),
        ([SaslHandshakeResponse(error_code=7)], Refusal.LOGIN_BEGIN, 7),
        ([SaslHandshakeResponse(error_code=30_000)], Refusal.LOGIN_BEGIN, 30_000),
        (
            [SaslHandshakeResponse(), SaslAuthenticateResponse(error_code=58, error_message="no")],
            Refusal.CREDENTIALS,
            58,
        ),
        ([SaslHandshakeResponse(), SaslAuthenticateResponse(error_code=-1)], Refusal.LOGIN, -1),
    ],
)
def test_a_refused_log_in_is_told_apart(
    responses: list[Message], refusal: Refusal, code: int
) -> None:
    """By what the user can change."""
    _, server = fresh(login=True)
    server.respond(versions())
    with pytest.raises(HandshakeError) as caught:
        for response in responses:
            server.respond(response)
    assert caught.value.refusal is refusal
    assert caught.value.error_code == code
    assert caught.value.mechanism == "PLAIN"
    assert list(caught.value.offered) == (["X"] if code == 33 else [])
    assert (caught.value.message or "") == ("no" if code == 58 else "")


def test_a_server_without_sasl_is_named_as_such() -> None:
    """Before anything secret is sent."""
    _, server = fresh(login=True)
    rows = [row for row in versions().api_keys if row.api_key != ApiKey.SASL_HANDSHAKE]
    with pytest.raises(HandshakeError) as caught:
        server.respond(ApiVersionsResponse(api_keys=rows))
    assert caught.value.refusal is Refusal.NO_SASL


@given(st.lists(st.integers(1, 30), min_size=1, max_size=6), st.integers(1, 5))
def test_any_split_of_the_responses_gives_the_same_events(sizes: list[int], count: int) -> None:
    """A stream has no pieces."""
    connection, server = ready()
    for number in range(count):
        send(connection, server, str(number))
    response = HeartbeatResponse(error_code=7)
    data = b"".join(framed(server.frame(response)) for _ in range(count))
    events = []
    position = turn = 0
    while position < len(data):
        size = min(sizes[turn % len(sizes)], len(data) - position)
        events += feed(connection, data[position : position + size])
        position += size
        turn += 1
    assert events == [ResponseReceived(str(number), response) for number in range(count)]


@given(st.binary(max_size=80))
def test_no_frame_raises_anything_unexpected(body: bytes) -> None:
    """What comes from outside ends the connection, with an error that tells whose fault it is."""
    connection, server = ready()
    send(connection, server, "a")
    correlation_id = struct.pack(">i", connection.in_flight[0].correlation_id)
    try:
        feed(connection, framed(correlation_id + body))
    except MalformedResponseError as error:
        assert "malformed" in str(error)


@given(st.binary(max_size=80))
def test_no_first_frame_raises_anything_unexpected(body: bytes) -> None:
    """Nor does one in the handshake."""
    connection, _ = fresh()
    correlation_id = struct.pack(">i", connection.in_flight[0].correlation_id)
    try:
        feed(connection, framed(correlation_id + body))
    except (MalformedResponseError, HandshakeError):
        assert not connection.is_open

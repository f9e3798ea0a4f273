"""One connection as a pure machine: requests in, buffers out; frames in, answers out."""

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas_client.errors import (
    AuthenticationError,
    BarnabasError,
    ClientBrokenError,
    DisconnectedError,
    RetriableError,
    UnsupportedError,
)
from barnabas_client.network.connection_state import REAUTHENTICATE_AT, ConnectionState
from barnabas_client.network.frame_receiver import SHARED_BYTES, FrameReceiver
from barnabas_client.network.sasl import PlainExchange
from barnabas_protocol import codec
from barnabas_protocol.api import KNOWN, ApiKey
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


class Peer:
    """The broker's side: reads what the state sends, writes answers in order."""

    def __init__(self, state: ConnectionState[str]) -> None:
        self.state = state
        self.asked: list[codec.RequestHeader] = []

    def read(self, buffers: list[Buffer]) -> codec.RequestHeader:
        """Take one request; its size must be right."""
        data = b"".join(bytes(buffer) for buffer in buffers)
        (size,) = struct.unpack_from(">i", data)
        assert size == len(data) - 4
        header = codec.read_request_header(data[4:])
        self.asked.append(header)
        return header

    def frame(self, message: Message) -> memoryview:
        """The answer to the oldest request."""
        header = self.asked.pop(0)
        return memoryview(
            codec.encode_response(
                message, header.api_key, header.api_version, header.correlation_id
            )
        )

    def answer(self, message: Message, now_ms: int = 0) -> Any:
        """Answer the oldest request; return the caller's answer, if it was a caller's."""
        answer, buffers = self.state.receive(self.frame(message), now_ms)
        if buffers:
            self.read(buffers)
        return answer


def versions(**more: Any) -> ApiVersionsResponse:
    rows = [
        ApiVersion(api_key=key, min_version=low, max_version=high)
        for key, (low, high) in KNOWN.items()
    ]
    return ApiVersionsResponse(api_keys=rows, **more)


def fresh(*, login: bool = False, in_flight_max: int = 5) -> tuple[ConnectionState[str], Peer]:
    state: ConnectionState[str] = ConnectionState(
        client_id="client",
        software_version="1.0",
        in_flight_max=in_flight_max,
        create_exchange=(lambda: PlainExchange("u", "p")) if login else None,
    )
    peer = Peer(state)
    peer.read(state.begin(DEADLINE_MS))
    return state, peer


def ready(**more: Any) -> tuple[ConnectionState[str], Peer]:
    state, peer = fresh(**more)
    assert peer.answer(versions()) is None
    assert state.can_send(0)
    return state, peer


def send(state: ConnectionState[str], peer: Peer, tag: str) -> None:
    buffers, has_answer = state.send(HEARTBEAT, 4, DEADLINE_MS, tag)
    assert has_answer
    peer.read(buffers)


def test_nothing_is_sent_before_the_versions_are_known() -> None:
    """KIP-511: ApiVersions comes first, under our name."""
    state, peer = fresh()
    assert not state.can_send(0)
    assert peer.asked[0].api_key == ApiKey.API_VERSIONS
    assert peer.asked[0].client_id == "client"
    assert peer.answer(versions()) is None
    assert state.can_send(0)
    assert state.served.newest(ApiKey.FETCH) == KNOWN[ApiKey.FETCH][1]


def test_answers_match_requests_in_order() -> None:
    """CLI-3."""
    state, peer = ready()
    for tag in "abc":
        send(state, peer, tag)
    assert [entry.tag for entry in state.in_flight] == ["a", "b", "c"]
    assert state.earliest_deadline_ms == DEADLINE_MS
    for tag in "abc":
        answer = peer.answer(HeartbeatResponse(error_code=ErrorCode.NONE))
        assert answer.tag == tag
    assert state.earliest_deadline_ms is None


def test_an_answer_out_of_order_is_fatal() -> None:
    """CLI-3: nothing after it can be trusted."""
    state, peer = ready()
    send(state, peer, "a")
    send(state, peer, "b")
    peer.asked.pop(0)
    with pytest.raises(DisconnectedError, match="correlation id"):
        peer.answer(HeartbeatResponse())


def test_an_answer_that_nobody_asked_for_is_fatal() -> None:
    """As is one that is too short to tell whom it answers."""
    state, peer = ready()
    with pytest.raises(DisconnectedError, match="nothing was asked"):
        state.receive(memoryview(b"\0\0\0\7"), 0)
    send(state, peer, "a")
    with pytest.raises(DisconnectedError, match="no correlation id"):
        state.receive(memoryview(b"\0"), 0)


def test_an_answer_that_cannot_be_read_stays_at_the_head() -> None:
    """So that the shell can tell the one who asked."""
    state, peer = ready()
    send(state, peer, "a")
    whole = peer.frame(HeartbeatResponse())
    with pytest.raises(ClientBrokenError, match="HEARTBEAT version 4"):
        state.receive(whole[:-1], 0)
    assert state.in_flight[0].tag == "a"


def test_no_more_than_the_limit_are_in_flight() -> None:
    """CLI-2."""
    state, peer = ready(in_flight_max=2)
    send(state, peer, "a")
    assert state.can_send(0)
    send(state, peer, "b")
    assert not state.can_send(0)
    peer.answer(HeartbeatResponse())
    assert state.can_send(0)


def test_a_throttle_time_holds_callers_back() -> None:
    """KIP-219; the longest of several counts."""
    state, peer = ready()
    send(state, peer, "a")
    send(state, peer, "b")
    peer.answer(HeartbeatResponse(throttle_time_ms=50), now_ms=10)
    peer.answer(HeartbeatResponse(throttle_time_ms=5), now_ms=20)
    assert not state.can_send(59)
    assert state.can_send(60)


def test_old_versions_have_been_throttled_by_the_broker() -> None:
    """KIP-219: before Heartbeat 2 the answer itself was late."""
    state, peer = ready()
    buffers, _ = state.send(HEARTBEAT, 1, DEADLINE_MS, "a")
    peer.read(buffers)
    peer.answer(HeartbeatResponse(throttle_time_ms=50), now_ms=10)
    assert state.can_send(10)


def test_a_produce_without_acks_is_never_in_flight() -> None:
    """acks=0: there is no answer to wait for, and batches go out as they were given."""
    state, peer = ready()
    batch = memoryview(bytes(1000))
    data = [PartitionProduceData(index=0, records=batch)]
    request = ProduceRequest(
        acks=0, timeout_ms=1, topic_data=[TopicProduceData(name="t", partition_data=data)]
    )
    buffers, has_answer = state.send(request, 9, DEADLINE_MS, "a")
    assert not has_answer
    assert any(buffer is batch for buffer in buffers)
    assert peer.read(buffers).api_key == ApiKey.PRODUCE
    assert not state.in_flight


def test_features_count_only_with_an_epoch() -> None:
    """KIP-584; transactions of the second kind depend on it."""
    features = [FinalizedFeatureKey(name="transaction.version", max_version_level=2)]
    for epoch, expected in ((-1, {}), (3, {"transaction.version": 2})):
        state, peer = fresh()
        peer.answer(versions(finalized_features=features, finalized_features_epoch=epoch))
        assert state.served.features == expected


def log_in(peer: Peer, now_ms: int, lifetime_ms: int) -> None:
    """Answer the two steps of a log-in."""
    assert peer.asked[-1].api_key == ApiKey.SASL_HANDSHAKE
    peer.answer(SaslHandshakeResponse(), now_ms)
    assert peer.asked[-1].api_key == ApiKey.SASL_AUTHENTICATE
    peer.answer(SaslAuthenticateResponse(session_lifetime_ms=lifetime_ms), now_ms)


def test_the_log_in_comes_before_everything_else() -> None:
    """KIP-152."""
    state, peer = fresh(login=True)
    peer.answer(versions())
    assert not state.can_send(0)
    log_in(peer, 100, 0)
    assert state.can_send(100)
    assert state.reauthenticate_at_ms is None


def test_the_log_in_is_repeated_within_the_sessions_lifetime() -> None:
    """KIP-368: behind what is in flight, and callers wait until it is through."""
    state, peer = fresh(login=True)
    peer.answer(versions())
    log_in(peer, 100, 1000)
    assert state.reauthenticate_at_ms == 100 + int(1000 * REAUTHENTICATE_AT)
    send(state, peer, "a")
    peer.read(state.begin_reauthentication(DEADLINE_MS))
    assert not state.can_send(950)
    assert peer.answer(HeartbeatResponse()).tag == "a"
    log_in(peer, 960, 1000)
    assert state.can_send(960)
    assert state.reauthenticate_at_ms == 960 + int(1000 * REAUTHENTICATE_AT)


@pytest.mark.parametrize(
    ("answers", "kind", "words"),
    [
        ([SaslHandshakeResponse(error_code=33, mechanisms=["X"])], AuthenticationError, "offers X"),
        ([SaslHandshakeResponse(error_code=34)], AuthenticationError, "security_protocol"),
        ([SaslHandshakeResponse(error_code=7)], RetriableError, "log-in"),
        (
            [
                SaslHandshakeResponse(),
                SaslAuthenticateResponse(error_code=58, error_message="wrong password"),
            ],
            AuthenticationError,
            "PLAIN credentials: wrong password",
        ),
        (
            [SaslHandshakeResponse(), SaslAuthenticateResponse(error_code=-1)],
            AuthenticationError,
            "UNKNOWN_SERVER_ERROR",
        ),
    ],
)
def test_a_refused_log_in_says_what_to_change(
    answers: list[Message], kind: type[BarnabasError], words: str
) -> None:
    """Errors are told apart by what the caller should do."""
    _, peer = fresh(login=True)
    peer.answer(versions())
    with pytest.raises(kind, match=words):
        for answer in answers:
            peer.answer(answer)


def test_a_broker_without_sasl_is_named_as_such() -> None:
    """Before anything secret is sent."""
    _, peer = fresh(login=True)
    rows = [row for row in versions().api_keys if row.api_key != ApiKey.SASL_HANDSHAKE]
    with pytest.raises(UnsupportedError, match="security_protocol"):
        peer.answer(ApiVersionsResponse(api_keys=rows))


@given(st.lists(st.integers(1, 30), min_size=1, max_size=6), st.integers(1, 5))
def test_any_split_of_the_answers_gives_the_same_events(sizes: list[int], count: int) -> None:
    """style.md section 9."""
    state, peer = ready()
    for number in range(count):
        send(state, peer, str(number))
    data = b"".join(
        struct.pack(">i", len(frame)) + frame
        for frame in [bytes(peer.frame(HeartbeatResponse(error_code=7))) for _ in range(count)]
    )
    receiver = FrameReceiver(memoryview(bytearray(SHARED_BYTES)), 1000)
    tags = []
    position = turn = 0
    while position < len(data):
        size = min(sizes[turn % len(sizes)], len(data) - position)
        receiver.buffer()[:size] = data[position : position + size]
        for frame in receiver.received(size):
            answer, _ = state.receive(frame, 0)
            assert answer is not None
            assert answer.response.error_code == 7
            tags.append(answer.tag)
        position += size
        turn += 1
    assert tags == [str(number) for number in range(count)]


@given(st.binary(max_size=80))
def test_no_frame_raises_anything_unexpected(body: bytes) -> None:
    """What comes from outside ends the connection, with an error that says so."""
    state, peer = ready()
    send(state, peer, "a")
    correlation_id = struct.pack(">i", state.in_flight[0].correlation_id)
    try:
        state.receive(memoryview(correlation_id + body), 0)
    except ClientBrokenError as error:
        assert "malformed" in str(error)

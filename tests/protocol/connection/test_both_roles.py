"""A client and a server against each other, over streams that are cut anywhere."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas_protocol import codec
from barnabas_protocol.api import KNOWN, ApiKey
from barnabas_protocol.connection.api_versions import unsupported_version_response
from barnabas_protocol.connection.client import (
    ClientConnection,
    HandshakeCompleted,
    HandshakeContinues,
    HandshakeHashes,
    ResponseReceived,
)
from barnabas_protocol.connection.framing import FrameReceiver, SharedBuffer
from barnabas_protocol.connection.handshake import Handshake, HandshakeError, Refusal
from barnabas_protocol.connection.sasl import (
    Accepted,
    Admission,
    CredentialNeeded,
    OAuthBearerSaslClient,
    OAuthBearerSaslServer,
    PasswordGiven,
    PlainSaslClient,
    PlainSaslServer,
    Respond,
    SaslClient,
    SaslServerAuthenticator,
    ScramCredential,
    ScramSaslClient,
    ScramSaslServer,
    TokenGiven,
    decoy_credential,
    salted_password,
    scram_keys,
)
from barnabas_protocol.connection.server import ServerConnection
from barnabas_protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from barnabas_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas_protocol.schema import Buffer, Message

SHARED = SharedBuffer()
SALT = b"some salt"
PASSWORD = "secret"


class Request:
    """A request on the server, and the place of its response."""

    def __init__(self, frame: memoryview) -> None:
        self.header = codec.read_request_header(frame)
        self.frame = frame
        self.is_done = False
        self.parts: Any = None


class Server:
    """A server that lets alice in, and leaves the responses to heartbeats to the test."""

    def __init__(self, api_versions_max: int = 4) -> None:
        self.connection = ServerConnection[Request](FrameReceiver(SHARED, 100_000))
        self.login = SaslServerAuthenticator(
            {
                "PLAIN": PlainSaslServer,
                "OAUTHBEARER": OAuthBearerSaslServer,
                "SCRAM-SHA-256": lambda: ScramSaslServer("SCRAM-SHA-256", "server"),
                "SCRAM-SHA-512": lambda: ScramSaslServer("SCRAM-SHA-512", "server"),
            }
        )
        self.heartbeats: list[Request] = []
        self._api_versions_max = api_versions_max

    def receive(self, data: bytes) -> None:
        receiver = self.connection.receiver
        receiver.buffer()[: len(data)] = data
        receiver.received(len(data))
        while (frame := receiver.next_frame()) is not None:
            request = Request(frame)
            self.connection.begin(request)
            self._handle(request)
        receiver.keep()

    def respond(self, request: Request, response: Message, version: int | None = None) -> None:
        header = request.header
        version = header.api_version if version is None else version
        request.is_done = True
        self.connection.respond(
            request,
            [codec.encode_response(response, header.api_key, version, header.correlation_id)],
        )

    def _handle(self, request: Request) -> None:
        header, login = request.header, self.login
        assert login.admit(header.api_key, 0) is Admission.HANDLE
        if header.api_key == ApiKey.API_VERSIONS and header.api_version > self._api_versions_max:
            response = unsupported_version_response(0, self._api_versions_max)
            self.respond(request, response, version=0)
            return
        kind = codec.request_class(header.api_key)
        message, _ = codec.decode(kind, request.frame, header.api_version, header.position)
        if header.api_key == ApiKey.API_VERSIONS:
            rows = [
                ApiVersion(api_key=key, min_version=low, max_version=high)
                for key, (low, high) in KNOWN.items()
            ]
            self.respond(request, ApiVersionsResponse(api_keys=rows))
            login.versions_sent()
        elif header.api_key == ApiKey.SASL_HANDSHAKE:
            self.respond(request, login.handshake(message, header.api_version, 0).response)
        elif header.api_key == ApiKey.SASL_AUTHENTICATE:
            outcome = login.authenticate(message, 0)
            while not isinstance(outcome, Respond):
                outcome = login.provide(self._found(outcome), 0)  # type: ignore[arg-type]
            self.respond(request, outcome.response)
        else:
            self.heartbeats.append(request)

    def _found(self, question: object) -> ScramCredential | Accepted | None:
        match question:
            case CredentialNeeded(mechanism, "alice"):
                salted = salted_password(mechanism, PASSWORD, SALT, 4096)
                keys = (scram_keys(mechanism, salted),)
                return ScramCredential(salt=SALT, iterations=4096, keys=keys)
            case CredentialNeeded(mechanism, username):
                return decoy_credential(mechanism, username, b"x")
            case PasswordGiven("alice", "secret") | TokenGiven("alice.secret", "", _):
                return Accepted(username="alice")
        return None


CLIENTS: dict[str, Callable[[str, str], SaslClient]] = {
    "PLAIN": PlainSaslClient,
    "OAUTHBEARER": lambda username, password: OAuthBearerSaslClient(f"{username}.{password}"),
    "SCRAM-SHA-256": lambda *words: ScramSaslClient("SCRAM-SHA-256", *words, "client"),
    "SCRAM-SHA-512": lambda *words: ScramSaslClient("SCRAM-SHA-512", *words, "client"),
    "SCRAM-SHA-512 apart": lambda *words: ScramSaslClient(
        "SCRAM-SHA-512", *words, "client", hashes_apart=True
    ),
}


class Pair:
    """Both sides, and a wire that cuts what it carries into pieces of certain sizes."""

    def __init__(self, server: Server, create: Callable[[], SaslClient], pieces: list[int]) -> None:
        self.server = server
        self.client = ClientConnection[int](
            FrameReceiver(SHARED, 100_000),
            client_id="client",
            in_flight_max=100,
            handshake=Handshake("barnabas", "1", create),
        )
        self.events: list[Any] = []
        self._pieces = itertools.cycle(pieces)

    def cut(self, buffers: list[Buffer]) -> Iterator[bytes]:
        data = b"".join(bytes(buffer) for buffer in buffers)
        position = 0
        while position < len(data):
            end = position + next(self._pieces)
            yield data[position:end]
            position = end

    def to_server(self, buffers: list[Buffer]) -> None:
        for piece in self.cut(buffers):
            self.server.receive(piece)
        self.to_client()

    def to_client(self) -> None:
        while self.server.connection.out_bytes:
            for piece in self.cut(list(self.server.connection.data_to_send())):
                receiver = self.client.receiver
                receiver.buffer()[: len(piece)] = piece
                receiver.received(len(piece))
                replies = []
                while (event := self.client.next_event(0)) is not None:
                    if isinstance(event, HandshakeContinues):
                        replies += event.buffers
                    elif isinstance(event, HandshakeHashes):
                        replies += self.client.provide(event.compute())
                    else:
                        self.events.append(event)
                for part in self.cut(replies):
                    self.server.receive(part)


@settings(max_examples=25, deadline=None)
@given(
    mechanism=st.sampled_from(sorted(CLIENTS)),
    pieces=st.lists(st.integers(1, 200), min_size=1, max_size=5),
    order=st.permutations(range(5)),
    api_versions_max=st.integers(0, 4),
)
def test_any_split_leads_to_the_log_in_and_to_responses_in_order(
    mechanism: str, pieces: list[int], order: list[int], api_versions_max: int
) -> None:
    """From the first byte to the last response, whatever the network cuts."""
    server = Server(api_versions_max)
    pair = Pair(server, lambda: CLIENTS[mechanism]("alice", PASSWORD), pieces)
    pair.to_server(pair.client.begin(0))
    assert pair.events == [HandshakeCompleted()]
    assert server.login.username == "alice"
    for number in range(5):
        request = HeartbeatRequest(group_id="g", member_id=str(number))
        buffers, _ = pair.client.send(request, 4, number)
        pair.to_server(buffers)
    for number in order:
        server.respond(server.heartbeats[number], HeartbeatResponse(error_code=number))
        pair.to_client()
    expected = [ResponseReceived(n, HeartbeatResponse(error_code=n)) for n in range(5)]
    assert pair.events[1:] == expected
    assert not pair.client.in_flight
    assert not server.connection.pending


@pytest.mark.parametrize("mechanism", sorted(CLIENTS))
@pytest.mark.parametrize("words", [("alice", "wrong"), ("nobody", "secret")])
def test_whoever_has_no_such_password_is_not_let_in(mechanism: str, words: tuple[str, str]) -> None:
    """And learns it from the server, not from a lost connection."""
    server = Server()
    pair = Pair(server, lambda: CLIENTS[mechanism](*words), [1_000])
    with pytest.raises(HandshakeError) as caught:
        pair.to_server(pair.client.begin(0))
    assert caught.value.refusal is Refusal.CREDENTIALS
    assert caught.value.message
    assert server.login.username is None


def test_a_mechanism_that_is_not_enabled_is_told_the_others() -> None:
    """In the order of the configuration."""

    class Unknown:
        mechanism = "GSSAPI"
        is_complete = False

        def first(self) -> bytes:
            return b""

        def respond(self, challenge: bytes) -> bytes | None:
            return None

    pair = Pair(Server(), Unknown, [1_000])
    with pytest.raises(HandshakeError) as caught:
        pair.to_server(pair.client.begin(0))
    assert caught.value.refusal is Refusal.MECHANISM
    assert caught.value.offered == ["PLAIN", "OAUTHBEARER", "SCRAM-SHA-256", "SCRAM-SHA-512"]

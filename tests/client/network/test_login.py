"""Tokens of OAUTHBEARER: where they come from, and that each log-in takes the newest one."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from barnabas_client.config import ClientSettings
from barnabas_client.errors import AuthenticationError, BarnabasError
from barnabas_client.network import Client
from barnabas_client.network.login import Login, login_of
from barnabas_protocol.api import ApiKey
from barnabas_protocol.connection.sasl import SaslClient
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.metadata import MetadataRequest
from barnabas_protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from barnabas_protocol.messages.sasl_handshake import SaslHandshakeResponse
from tests.support.in_process_broker import eventually
from tests.support.scripted_broker import Received, ScriptedBroker

CANARY = "canary-token-0001"


def settings(**values: Any) -> ClientSettings:
    return ClientSettings.create(
        {
            "bootstrap_servers": "a:1",
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "OAUTHBEARER",
            **values,
        }
    )


def shown(login: Login) -> bytes:
    """What a log-in begins with."""

    async def run() -> SaslClient:
        await login.prepare()
        return login.create("a")

    return asyncio.run(run()).first()


def login(**values: Any) -> Login:
    found = login_of(settings(**values))
    assert found is not None
    return found


def test_a_file_is_read_at_each_log_in(tmp_path: Path) -> None:
    """SEC-100: the kubelet renews a ServiceAccount's token long before it ends."""
    path = tmp_path / "token"
    path.write_text("one\n")
    of_file = login(sasl_oauthbearer_token_file=str(path))
    assert b"Bearer one\x01" in shown(of_file)
    path.write_text("two\n")
    assert b"Bearer two\x01" in shown(of_file)


def test_callbacks_may_be_functions_or_coroutines() -> None:
    """SEC-100."""

    async def later() -> str:
        return "later"

    assert b"Bearer now\x01" in shown(login(sasl_oauthbearer_token_callback=lambda: "now"))
    assert b"Bearer later\x01" in shown(login(sasl_oauthbearer_token_callback=later))
    assert b"Bearer later\x01" in shown(login(sasl_oauthbearer_token_callback=lambda: later()))


def broken() -> str:
    raise ValueError(CANARY)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"sasl_oauthbearer_token_file": "/nowhere/token"}, "token'? cannot be read: No such"),
        ({"sasl_oauthbearer_token_callback": broken}, "callback failed with ValueError"),
        ({"sasl_oauthbearer_token_callback": lambda: None}, "gave NoneType, not text"),
        ({"sasl_oauthbearer_token_callback": lambda: f"{CANARY} \x01"}, "cannot be sent"),
    ],
)
def test_what_goes_wrong_is_told_without_the_token(values: dict[str, Any], words: str) -> None:
    """SEC-114."""
    with pytest.raises(AuthenticationError, match=words) as raised:
        shown(login(**values))
    assert CANARY not in str(raised.value)


def test_empty_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("\n")
    with pytest.raises(AuthenticationError, match="is empty"):
        shown(login(sasl_oauthbearer_token_file=str(path)))


class TokenBroker(ScriptedBroker):
    """Takes one token; each log-in lasts `lifetime_ms`."""

    def __init__(self, accepted: str, lifetime_ms: int) -> None:
        super().__init__()
        self.accepted = accepted
        self.seen: list[str] = []
        self.script[ApiKey.SASL_HANDSHAKE] = lambda _: SaslHandshakeResponse(
            error_code=0, mechanisms=["OAUTHBEARER"]
        )
        self.script[ApiKey.SASL_AUTHENTICATE] = self._authenticate
        self._lifetime_ms = lifetime_ms

    def _authenticate(self, received: Received) -> SaslAuthenticateResponse:
        token = bytes(received.message.auth_bytes)
        if token == b"\x01":
            return SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
                error_message=json.dumps({"status": "invalid_token"}),
                auth_bytes=b"",
            )
        text = token.decode().split("Bearer ")[1].rstrip("\x01")
        self.seen.append(text)
        challenge = b"" if text == self.accepted else b'{"status":"invalid_token"}'
        return SaslAuthenticateResponse(
            error_code=0,
            error_message=None,
            auth_bytes=challenge,
            session_lifetime_ms=self._lifetime_ms,
        )


def run_client(broker: TokenBroker, values: dict[str, Any], work: Any = None) -> None:
    async def run() -> None:
        await broker.start()
        client = Client(
            settings(
                **{"bootstrap_servers": broker.bootstrap, "default_api_timeout_ms": 2000, **values}
            )
        )
        try:
            await client.start()
            if work is not None:
                await work(client)
        finally:
            await client.close()
            await broker.stop()

    asyncio.run(run())


def test_a_session_is_prolonged_with_the_token_of_then(tmp_path: Path) -> None:
    """KIP-368: the connection stays, and the file of then is read, not that of the first log-in."""
    path = tmp_path / "token"
    path.write_text("first")
    broker = TokenBroker("first", lifetime_ms=300)

    async def work(client: Client) -> None:
        connection = client.running.network.connections.current(broker.node_id)
        broker.accepted = "second"
        path.write_text("second")

        async def prolonged() -> bool:
            await client.request(broker.node_id, MetadataRequest(topics=[]))
            return "second" in broker.seen

        await eventually(prolonged)
        assert client.running.network.connections.current(broker.node_id) is connection

    run_client(broker, {"sasl_oauthbearer_token_file": str(path)}, work)
    assert set(broker.seen) == {"first", "second"}


def test_a_token_that_is_refused_is_told_quickly_and_not_shown() -> None:
    """SEC-28, SEC-114: the broker's JSON, in one line, without the token."""
    broker = TokenBroker("another", lifetime_ms=0)
    with pytest.raises(BarnabasError) as raised:
        run_client(broker, {"sasl_oauthbearer_token_callback": lambda: CANARY})
    assert isinstance(raised.value, AuthenticationError)
    assert "invalid_token" in str(raised.value)
    assert CANARY not in str(raised.value)
    assert "\n" not in str(raised.value)

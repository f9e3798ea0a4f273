"""Log-ins by bearer tokens on a running broker: keys of a file, of a server, of an API server."""

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from time import time
from typing import Any

import pytest

from barnabas_broker.config.definitions import ConfigError
from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.server import Server
from barnabas_client.errors import AuthenticationError
from barnabas_client.network import Client
from tests.support.in_process_broker import running_broker
from tests.support.sasl_brokers import LISTENERS, logged_in, sessions
from tests.support.tls_files import TlsFiles
from tests.support.token_issuer import AUDIENCE, ISSUER, TokenIssuer, TokenServer, key_set

TOKENS = LISTENERS | {
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.expected.issuer": ISSUER,
    "sasl.oauthbearer.expected.audience": AUDIENCE,
}
PODS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0,REPLICATION://127.0.0.1:0",
    # The certificate is for the name.
    "advertised.listeners": "PLAINTEXT://127.0.0.1:0,SASL://localhost:0,REPLICATION://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_SSL",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.expected.audience": AUDIENCE,
    "barnabas.oauthbearer.service.accounts": "true",
}
POD = "system:serviceaccount:shop:orders"


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return TlsFiles(tmp_path_factory.mktemp("tls")).create()


def connected(server: Server, token: str, **more: Any) -> AbstractAsyncContextManager[Client]:
    return logged_in(
        server,
        sasl_mechanism="OAUTHBEARER",
        sasl_oauthbearer_token_callback=lambda: token,
        **more,
    )


async def refused(server: Server, token: str, **more: Any) -> None:
    with pytest.raises(AuthenticationError):
        async with connected(server, token, **more):
            pass


def test_tokens_are_verified_by_the_keys_of_a_file(tmp_path: Path) -> None:
    """SEC-28: and a key that is added is found when a token names it."""
    issuer, later = TokenIssuer(), TokenIssuer("RS256", "key-2")
    file = tmp_path / "keys.json"
    file.write_bytes(key_set(issuer))
    settings = TOKENS | {"sasl.oauthbearer.jwks.endpoint.url": f"file:{file}"}

    async def run() -> None:
        async with running_broker(tmp_path / "data", **settings) as server:
            async with connected(server, issuer.token(time())):
                assert {str(session.principal) for session in sessions(server)} == {"User:alice"}
                (session,) = [one for one in sessions(server) if not one.is_closed][:1]
                assert session.login.mechanism == "OAUTHBEARER"
            await refused(server, issuer.token(time(), aud="other"))
            await refused(server, TokenIssuer().token(time()))
            file.write_bytes(key_set(issuer, later))
            async with connected(server, later.token(time())):
                pass

    asyncio.run(run())


def test_the_last_good_keys_stay_while_their_server_is_away(tmp_path: Path, tls: TlsFiles) -> None:
    """SEC-28: over https, verified by its authority; invented key ids cost it nothing."""
    issuer = TokenIssuer()

    async def run() -> None:
        async with TokenServer(tls, issuer) as keys:
            settings = TOKENS | {
                "sasl.oauthbearer.jwks.endpoint.url": f"{keys.address}/openid/v1/jwks",
                "barnabas.oauthbearer.jwks.ca.file": str(tls.authority),
            }
            async with running_broker(tmp_path / "data", **settings) as server:
                async with connected(server, issuer.token(time())):
                    pass
                keys.is_away = True
                async with connected(server, issuer.token(time())):
                    pass
                await refused(server, TokenIssuer(key_id="new").token(time()))
                keys.is_away = False
                fetches = keys.fetches
                for _ in range(3):
                    await refused(server, TokenIssuer(key_id="new").token(time()))
                assert keys.fetches == fetches  # the key was looked for a minute ago

    asyncio.run(run())


def test_nobody_gets_in_before_the_keys_are_there(tmp_path: Path, tls: TlsFiles) -> None:
    """SEC-28: a broker starts while their server is away, and takes no token unverified."""
    issuer = TokenIssuer()

    async def run() -> None:
        async with TokenServer(tls, issuer) as keys:
            keys.is_away = True
            settings = TOKENS | {
                "sasl.oauthbearer.jwks.endpoint.url": f"{keys.address}/openid/v1/jwks",
                "barnabas.oauthbearer.jwks.ca.file": str(tls.authority),
            }
            async with running_broker(tmp_path / "data", **settings) as server:
                await refused(server, issuer.token(time()))
                keys.is_away = False
                async with asyncio.timeout(20):
                    while not server.logins.tokens["SASL"].keys.keys:
                        await asyncio.sleep(0.01)
                async with connected(server, issuer.token(time())):
                    pass

    asyncio.run(run())


def pods(keys: TokenServer, tls: TlsFiles, **more: str) -> dict[str, str]:
    return {
        **PODS,
        "arbiter.kubernetes.server": keys.address,
        "arbiter.kubernetes.ca.file": str(tls.authority),
        "arbiter.kubernetes.token.file": "",
        "ssl.keystore.type": "PEM",
        "barnabas.ssl.certificate.file": str(tls.broker_certificate),
        "barnabas.ssl.key.file": str(tls.broker_key),
        **more,
    }


def test_pods_log_in_with_the_tokens_of_their_service_accounts(
    tmp_path: Path, tls: TlsFiles
) -> None:
    """SEC-29: keys and issuer are the API server's, also while it changes its issuer."""
    issuer = TokenIssuer("RS256")
    client = {"security_protocol": "SASL_SSL", "ssl_cafile": str(tls.authority)}

    async def run() -> None:
        async with (
            TokenServer(tls, issuer) as keys,
            running_broker(tmp_path / "data", **pods(keys, tls)) as server,
        ):
            async with asyncio.timeout(20):
                while not server.logins.tokens["SASL"].keys.keys:
                    await asyncio.sleep(0.01)
            async with connected(server, issuer.token(time(), sub=POD), **client):
                assert {str(session.principal) for session in sessions(server)} == {f"User:{POD}"}
            await refused(server, issuer.token(time()), **client)  # nobody's pod
            await refused(server, issuer.token(time(), sub=POD, aud=ISSUER), **client)
            keys.issuer = "https://new.example"
            await server.logins.tokens["SASL"].keys.load()
            for name in (ISSUER, keys.issuer):
                async with connected(server, issuer.token(time(), sub=POD, iss=name), **client):
                    pass
            assert keys.reviews == []

    asyncio.run(run())


def test_a_review_refuses_the_token_of_a_deleted_pod(tmp_path: Path, tls: TlsFiles) -> None:
    """SEC-29: asked for our audience, remembered for a minute, and closed without an answer."""
    issuer = TokenIssuer("RS256")
    client = {"security_protocol": "SASL_SSL", "ssl_cafile": str(tls.authority)}
    gone = "system:serviceaccount:shop:gone"
    more = {"barnabas.oauthbearer.token.review": "true"}

    async def run() -> None:
        async with (
            TokenServer(tls, issuer) as keys,
            running_broker(tmp_path / "data", **pods(keys, tls, **more)) as server,
        ):
            async with asyncio.timeout(20):
                while not server.logins.tokens["SASL"].keys.keys:
                    await asyncio.sleep(0.01)
            keys.deleted.add(gone)
            token = issuer.token(time(), sub=POD)
            for _ in range(3):
                async with connected(server, token, **client):
                    pass
            assert [review["audiences"] for review in keys.reviews] == [[AUDIENCE]]
            await refused(server, issuer.token(time(), sub=gone), **client)
            keys.audiences = ["https://kubernetes.default.svc"]
            await refused(server, issuer.token(time(), sub=POD, jti="2"), **client)
            keys.is_away = True
            async with connected(server, token, **client):
                pass
            await refused(server, issuer.token(time(), sub=POD, jti="3"), **client)
            reviews = server.logins.tokens["SASL"].reviews
            assert reviews is not None
            assert reviews.failed_count > 0

    asyncio.run(run())


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"sasl.oauthbearer.expected.issuer": ""}, "issuer: needed"),
        ({"sasl.oauthbearer.expected.audience": ""}, "audience: needed"),
        ({"sasl.oauthbearer.jwks.endpoint.url": ""}, "nothing is taken unverified"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "http://keys.example/jwks"}, "is not file:"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "keys.json"}, "is not file:"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "file://host/keys.json"}, "is not file:"),
        ({"barnabas.oauthbearer.algorithms": "RS256,HS256"}, "HS256 is not one of"),
        ({"barnabas.oauthbearer.algorithms": "none"}, "none is not one of"),
        ({"barnabas.oauthbearer.token.review": "true"}, "only tokens of ServiceAccounts"),
        ({"barnabas.oauthbearer.service.accounts": "true"}, "has no TLS"),
        ({"barnabas.allow.plain.without.tls": "false"}, "OAUTHBEARER sends what others"),
    ],
)
def test_what_cannot_verify_does_not_start(more: dict[str, str], reason: str) -> None:
    """SEC-28, CVE-2026-33557: Kafka takes tokens unverified where no URL is set."""
    settings = {"node.id": "0", **TOKENS, "sasl.oauthbearer.jwks.endpoint.url": "file:/keys"}
    BrokerConfig.parse(settings)
    with pytest.raises(ConfigError, match=reason):
        BrokerConfig.parse({**settings, **more})


def test_keys_that_are_no_keys_fail_the_start(tmp_path: Path) -> None:
    """SEC-28: a file that is missing or holds none is told at once."""
    file = tmp_path / "keys.json"
    settings = TOKENS | {"sasl.oauthbearer.jwks.endpoint.url": f"file:{file}"}

    async def run() -> None:
        for data in (None, b'{"keys": []}'):
            if data is not None:
                file.write_bytes(data)
            with pytest.raises(ConfigError, match="keys"):
                async with running_broker(tmp_path / "data", **settings):
                    pass

    asyncio.run(run())


def test_a_broker_without_an_api_server_says_only_that(
    tmp_path: Path, tls: TlsFiles, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEC-29: a start that fails early has nothing to stop."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    settings = {
        **PODS,
        "listener.name.sasl.barnabas.ssl.certificate.file": str(tls.broker_certificate),
        "listener.name.sasl.barnabas.ssl.key.file": str(tls.broker_key),
    }

    async def run() -> None:
        with pytest.raises(ConfigError, match=r"arbiter\.kubernetes\.server is needed"):
            async with running_broker(tmp_path / "data", **settings):
                pass

    asyncio.run(run())
    assert not [record for record in caplog.records if record.levelname == "ERROR"]

"""Log-in with an OpenID provider, and every way to get in that must not be one (CON-140, CON-172).

The provider is a real one of the tests' own, on the loopback address; brokers verify its tokens.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest
from aiohttp.test_utils import TestClient

from barnabas_broker.server import Server
from barnabas_client.admin import Admin, NewTopic
from barnabas_client.admin.values.acls import AclBinding
from barnabas_client.env import SystemClock
from barnabas_console.oidc.login_attempts import ATTEMPT_MS
from barnabas_console.oidc.oidc_settings import OidcSettings
from barnabas_console.server import VIEWERS
from barnabas_protocol.acl import AclOperation, AclPermission, AclResourceType, PatternType
from tests.support.console_server import OWN, running_console
from tests.support.in_process_broker import running_broker
from tests.support.openid_provider import CLIENT_ID, OpenIdProvider
from tests.support.sasl_brokers import LISTENERS, port_of
from tests.support.token_issuer import TokenIssuer

Client = TestClient[Any, Any]


class ShiftedClock(SystemClock):
    """The machine's clocks, and what the test lets pass besides."""

    __slots__ = ("passed_ms",)

    def __init__(self) -> None:
        self.passed_ms = 0

    def monotonic_ms(self) -> int:
        return super().monotonic_ms() + self.passed_ms

    def wall_ms(self) -> int:
        return super().wall_ms() + self.passed_ms


@dataclass
class Browser:
    """One browser: its cookies, and the page's own header."""

    client: Client
    cookies: dict[str, str] = field(default_factory=dict)

    async def ask(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, Any]:
        cookies = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        sent = {**OWN, "Cookie": cookies, **headers}
        async with self.client.request(
            method, f"/api/v1{path}", headers=sent, json=body, allow_redirects=False
        ) as response:
            for name, morsel in response.cookies.items():
                assert morsel["httponly"] and morsel["secure"] and morsel["samesite"] == "Strict"
                self.cookies[name] = morsel.value
            assert "Location" not in response.headers
            has_body = response.content_type == "application/json"
            return response.status, await response.json() if has_body else None

    async def leave(self) -> str:
        """Begin; where the browser is sent."""
        status, answer = await self.ask("POST", "/login/begin", {})
        assert status == 200, answer
        return str(answer["url"])

    async def provider_answer(self, user: str = "alice") -> dict[str, str]:
        """Log in at the provider; what it sends the browser back with."""
        async with (
            aiohttp.ClientSession() as session,
            session.post(await self.leave(), data={"user": user}, allow_redirects=False) as answer,
        ):
            assert answer.status == 302
            back = urlsplit(answer.headers["Location"])
        assert back.path == "/oidc/callback"
        return {name: values[0] for name, values in parse_qs(back.query).items()}

    async def log_in(self, user: str = "alice", status: int = 204) -> Any:
        """All of it."""
        found, answer = await self.ask("POST", "/login", await self.provider_answer(user))
        assert found == status, answer
        return answer

    async def sees(self, path: str, status: int = 200) -> Any:
        found, answer = await self.ask("GET", path)
        assert found == status, answer
        return answer


@dataclass
class Stage:
    """A provider, a broker that knows it, a console that asks it."""

    provider: OpenIdProvider
    server: Server
    client: Client
    clock: ShiftedClock

    def browser(self) -> Browser:
        return Browser(self.client)


@asynccontextmanager
async def stage(path: Path, **oidc: Any) -> AsyncIterator[Stage]:
    keys, clock = path / "keys.json", ShiftedClock()
    async with OpenIdProvider(oidc.get("client_secret")) as provider:
        keys.write_bytes(provider.keys())
        settings = LISTENERS | provider.broker_settings(f"file:{keys}")
        settings |= {
            "authorizer.class.name": "StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "barnabas.broker.principals": "User:ANONYMOUS",
            "sasl.oauthbearer.expected.audience": f"barnabas,{CLIENT_ID}",
        }
        async with running_broker(path / "data", **settings) as server:
            async with Admin(f"127.0.0.1:{server.port}") as admin:
                new = [NewTopic(name="orders"), NewTopic(name="salaries")]
                (await admin.topics.create(new)).unwrap()
                (await admin.acls.create([may_see("User:alice", "orders")])).unwrap()
            async with running_console(
                f"localhost:{port_of(server)}",
                client_settings={"security_protocol": "SASL_PLAINTEXT"},
                clock=clock,
                login="oidc",
                oidc=OidcSettings(issuer=provider.issuer, client_id=CLIENT_ID, **oidc),
            ) as client:
                yield Stage(provider, server, client, clock)


def may_see(principal: str, topic: str) -> AclBinding:
    return AclBinding(
        resource_type=AclResourceType.TOPIC,
        resource_name=topic,
        pattern_type=PatternType.LITERAL,
        principal=principal,
        host="*",
        operation=AclOperation.DESCRIBE,
        permission=AclPermission.ALLOW,
    )


@pytest.mark.parametrize(
    "oidc", [{}, {"token": "id"}, {"client_secret": "a secret: 100 %", "scopes": ("openid", "x")}]
)
def test_each_sees_what_their_own_token_lets_them_see(tmp_path: Path, oidc: dict[str, Any]) -> None:
    """CON-140, CON-141: brokers decide by the user's own token, access or ID token."""

    async def run() -> None:
        async with stage(tmp_path, **oidc) as at:
            nobody, alice, bob = at.browser(), at.browser(), at.browser()
            session = await nobody.sees("/session")
            assert (session["login"], session["principal"]) == ("oidc", None)
            assert session["provider"] == urlsplit(at.provider.issuer).netloc
            await nobody.sees("/topics", 401)
            for browser, user, topics in ((alice, "alice", ["orders"]), (bob, "bob", [])):
                await browser.log_in(user)
                assert (await browser.sees("/session"))["principal"] == f"User:{user}"
                found = (await browser.sees("/topics"))["rows"]
                assert [row["topic"] for row in found] == topics

    asyncio.run(run())


def test_what_goes_to_the_provider_is_the_console_s_alone(tmp_path: Path) -> None:
    """CON-172: no open redirect; nobody says where the code goes, by body, query or header."""

    async def run() -> None:
        async with stage(tmp_path) as at:
            browser = at.browser()
            body = {"redirect_uri": "https://evil.example", "return_to": "//evil.example"}
            path = "/login/begin?redirect_uri=https://evil.example"
            forwarded = {"X-Forwarded-Host": "evil.example", "Forwarded": "host=evil.example"}
            status, answer = await browser.ask("POST", path, body, **forwarded)
            assert status == 200
            asked = {name: one for name, (one,) in parse_qs(urlsplit(answer["url"]).query).items()}
            assert asked["redirect_uri"] == str(at.client.make_url("/oidc/callback"))
            assert len(asked["state"]) > 60 and len(asked["nonce"]) >= 43
            assert asked["code_challenge_method"] == "S256"
            again = parse_qs(urlsplit(await browser.leave()).query)
            for name in ("state", "nonce", "code_challenge"):
                assert again[name] != [asked[name]]
            status, _ = await browser.ask("POST", "/login/begin", {}, Host="evil.example")
            assert status == 403

    asyncio.run(run())


def test_an_answer_is_good_once_and_in_the_browser_that_began(tmp_path: Path) -> None:
    """CON-172: log-in CSRF, a mix of two sessions, a replayed or a guessed state."""

    async def run() -> None:
        async with stage(tmp_path) as at:
            alice, eve = at.browser(), at.browser()
            answer, hers = await alice.provider_answer(), await eve.provider_answer("eve")
            for state in ("", "x", "é", "A" * 75, hers["state"], answer["state"][:-2], "x" * 9_999):
                status, refusal = await alice.ask("POST", "/login", {**answer, "state": state})
                assert (status, refusal["error"]) == (400, "LOGIN_FAILED"), state
            for browser in (eve, at.browser()):
                status, _ = await browser.ask("POST", "/login", answer)
                assert status == 400
            # Whoever is made to post another's answer stays who they are.
            status, _ = await alice.ask("POST", "/login", hers)
            assert status == 400
            assert at.provider.code_requests == 0
            status, refusal = await alice.ask("POST", "/login", answer)
            assert status == 204, refusal
            status, _ = await alice.ask("POST", "/login", answer)
            assert status == 400
            assert at.provider.code_requests == 1
            assert (await alice.sees("/session"))["principal"] == "User:alice"
            assert (await eve.sees("/session"))["principal"] is None

    asyncio.run(run())


def test_an_answer_that_comes_too_late_is_refused(tmp_path: Path) -> None:
    """CON-172: ten minutes."""

    async def run() -> None:
        async with stage(tmp_path) as at:
            browser = at.browser()
            answer = await browser.provider_answer()
            at.clock.passed_ms = ATTEMPT_MS
            status, _ = await browser.ask("POST", "/login", answer)
            assert status == 400

    asyncio.run(run())


def test_a_code_is_worth_nothing_in_another_attempt(tmp_path: Path) -> None:
    """CON-172: code injection and replay; PKCE binds a code to who began, the provider to once."""

    async def run() -> None:
        async with stage(tmp_path) as at:
            alice, eve = at.browser(), at.browser()
            stolen = await alice.provider_answer()
            hers = await eve.provider_answer("eve")
            status, refusal = await eve.ask("POST", "/login", {**hers, "code": stolen["code"]})
            assert (status, refusal["message"]) == (401, "the provider refused: invalid_grant")
            assert (await eve.sees("/session"))["principal"] is None
            await alice.log_in()
            for code in (stolen["code"], hers["code"] + "'--", "x" * 5_000, ""):
                fresh = await eve.provider_answer("eve")
                status, _ = await eve.ask("POST", "/login", {**fresh, "code": code})
                assert status in (400, 401)
            assert "barnabas_console" not in eve.cookies

    asyncio.run(run())


def test_an_answer_of_another_provider_is_refused(tmp_path: Path) -> None:
    """CON-172: mix-up (RFC 9207); the code goes nowhere."""

    async def run() -> None:
        async with stage(tmp_path) as at:
            browser = at.browser()
            for issuer in ("https://evil.example", "", None, 1):
                answer = {**await browser.provider_answer(), "iss": issuer}
                status, _ = await browser.ask("POST", "/login", answer)
                assert status == 401
            assert at.provider.code_requests == 0

    asyncio.run(run())


BAD_ID_TOKENS: dict[str, dict[str, Any]] = {
    "nonce of another": {"nonce": "of-another-log-in"},
    "no nonce": {"nonce": None},
    "nonce that is no text": {"nonce": ["x"]},
    "issuer": {"iss": "https://evil.example"},
    "audience": {"aud": "another-client"},
    "several audiences": {"aud": [CLIENT_ID, "another-client"]},
    "asked for by another": {"aud": [CLIENT_ID], "azp": "another-client"},
    "expired": {"exp": 1_000},
    "no end": {"exp": None},
    "from the future": {"iat": 9_999_999_999},
    "no subject": {"sub": None},
    "another access token": {"at_hash": "x" * 22},
}


def test_an_id_token_that_is_not_of_this_log_in_lets_nobody_in(tmp_path: Path) -> None:
    """CON-172: each claim that must hold, one at a time."""

    async def run() -> None:
        async with stage(tmp_path) as at:
            browser = at.browser()
            for name, claims in BAD_ID_TOKENS.items():
                at.provider.id_claims = claims
                refusal = await browser.log_in(status=401)
                assert "the ID token is refused" in refusal["message"], name
                assert "barnabas_console" not in browser.cookies, name
            at.provider.id_claims = {"aud": [CLIENT_ID, "other"], "azp": CLIENT_ID}
            await browser.log_in()

    asyncio.run(run())


def test_a_forged_id_token_lets_nobody_in(tmp_path: Path) -> None:
    """CON-172: another key by the same name, an unknown one, no signature, none at all."""

    async def run() -> None:
        async with stage(tmp_path) as at:
            browser = at.browser()
            for forger in (TokenIssuer(), TokenIssuer(key_id="unknown"), TokenIssuer("RS256")):
                at.provider.id_signer = forger
                assert "refused" in (await browser.log_in(status=401))["message"]
            for token in (None, "", "e30.e30.e30", "eyJhbGciOiJub25lIn0.e30."):
                at.provider.answer = {"id_token": token}
                await browser.log_in(status=401)
            for wrong in ({"token_type": "mac"}, {"access_token": None}, {"access_token": "é"}):
                at.provider.answer = wrong
                await browser.log_in(status=502)
            assert "barnabas_console" not in browser.cookies

    asyncio.run(run())


def test_a_new_key_of_the_provider_is_looked_for(tmp_path: Path) -> None:
    """Keys change; an unknown one is asked for again, once a minute at most."""

    async def run() -> None:
        async with stage(tmp_path, token="access") as at:
            browser = at.browser()
            await browser.log_in()
            at.provider.id_signer = TokenIssuer(key_id="key-2")
            at.provider.published = [at.provider.signer, at.provider.id_signer]
            await browser.log_in(status=401)
            at.clock.passed_ms += 60_000
            await browser.log_in()

    asyncio.run(run())


def test_a_key_that_the_provider_has_withdrawn_lets_nobody_in(tmp_path: Path) -> None:
    """Its keys are read again within the hour, though the old one is still known here."""

    async def run() -> None:
        async with stage(tmp_path) as at:
            browser = at.browser()
            await browser.log_in()
            at.provider.published = [TokenIssuer(key_id="key-2")]
            at.clock.passed_ms += 3_600_000
            refusal = await browser.log_in(status=401)
            assert "its key is not known" in refusal["message"]

    asyncio.run(run())


def test_who_brokers_do_not_take_is_not_in(tmp_path: Path) -> None:
    """CON-141: the provider's word is not enough; the access token is for these brokers or not."""

    async def run() -> None:
        async with stage(tmp_path) as at:
            browser = at.browser()
            for claims in ({"aud": "another-service"}, {"exp": 1_000}, {"iss": "https://evil"}):
                at.provider.access_claims = claims
                refusal = await browser.log_in(status=401)
                assert "do not take" in refusal["message"]
            assert (await browser.sees("/session"))["principal"] is None
            assert len(at.provider.revoked) == 3

    asyncio.run(run())


def test_a_token_is_refreshed_once_however_many_ask(tmp_path: Path) -> None:
    """CON-140: the session goes on beyond the token; refresh tokens rotate and are used once."""

    async def run() -> None:
        async with stage(tmp_path) as at:
            at.provider.lifetime_seconds = 300
            browser = at.browser()
            await browser.log_in()
            await browser.sees("/topics")
            assert at.provider.refreshes == 0
            for turn in range(1, 4):
                at.clock.passed_ms += 280_000
                await asyncio.gather(*(browser.sees("/topics") for _ in range(10)))
                assert at.provider.refreshes == turn
            at.provider.is_away = True
            at.clock.passed_ms += 280_000
            await browser.sees("/topics")  # the old one holds for 20 s
            at.clock.passed_ms += 20_000
            await browser.sees("/topics", 504)
            at.provider.is_away = False
            await browser.sees("/topics")

    asyncio.run(run())


def test_a_refresh_that_is_refused_or_somebody_else_s_ends_the_session(tmp_path: Path) -> None:
    """CON-140, CON-172: who was locked out at the provider is out here."""

    async def run() -> None:
        async with stage(tmp_path) as at:
            at.provider.lifetime_seconds = 300
            for bent in ({"sub": "eve"}, {"aud": "another-client"}, {"nonce": "another"}):
                browser = at.browser()
                at.provider.id_claims = {}
                await browser.log_in()
                at.provider.id_claims = bent
                at.clock.passed_ms += 300_000
                await browser.sees("/topics", 401)
                assert (await browser.sees("/session"))["principal"] is None
            at.provider.id_claims = {}
            browser = at.browser()
            await browser.log_in()
            at.provider.forget_refresh_tokens()
            at.clock.passed_ms += 300_000
            await browser.sees("/topics", 401)

    asyncio.run(run())


def test_without_a_refresh_token_the_session_ends_with_its_token(tmp_path: Path) -> None:
    """CON-140: an expired token opens nothing."""

    async def run() -> None:
        async with stage(tmp_path) as at:
            at.provider.answer = {"refresh_token": None, "expires_in": 600}
            browser = at.browser()
            await browser.log_in()
            at.clock.passed_ms += 599_000
            await browser.sees("/topics")
            at.clock.passed_ms += 1_000
            await browser.sees("/topics", 401)
            assert (await browser.sees("/session"))["principal"] is None
            for lifetime in (0, -5, 1e400):
                at.provider.answer = {"refresh_token": None, "expires_in": lifetime}
                await browser.log_in(status=401 if lifetime < 1 else 204)

    asyncio.run(run())


def test_a_stream_ends_with_the_tokens_of_its_session(tmp_path: Path) -> None:
    """CON-140: who watches a tail asks for nothing else, and is out all the same."""

    async def run() -> None:
        async with stage(tmp_path) as at:
            async with Admin(f"127.0.0.1:{at.server.port}") as admin:
                reads = replace(may_see("User:alice", "orders"), operation=AclOperation.READ)
                (await admin.acls.create([reads])).unwrap()
            at.provider.lifetime_seconds = 300
            browser = at.browser()
            await browser.log_in()
            cookies = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
            path, headers = "/api/v1/topics/orders/tail", {**OWN, "Cookie": cookies}
            async with at.client.get(path, headers=headers) as response:
                await response.content.readuntil(b"\n\n")
                viewers = at.client.server.app[VIEWERS]  # type: ignore[attr-defined]
                at.clock.passed_ms += 300_000
                await viewers.renew_streams()
                await viewers.close_unused()
                assert at.provider.refreshes == 1
                await response.content.readuntil(b"\n\n")
                at.provider.forget_refresh_tokens()
                at.clock.passed_ms += 300_000
                await viewers.renew_streams()
                await viewers.close_unused()
                with pytest.raises((aiohttp.ClientError, asyncio.IncompleteReadError)):
                    while True:
                        await response.content.readuntil(b"\n\n")

    asyncio.run(run())


def test_who_logs_out_is_out_here_and_at_the_provider(tmp_path: Path) -> None:
    """CON-140: the refresh token is revoked; the page is told where the provider's session ends."""

    async def run() -> None:
        async with stage(tmp_path) as at:
            alice, again = at.browser(), at.browser()
            await alice.log_in()
            await again.log_in()
            status, answer = await alice.ask("POST", "/logout", {})
            assert status == 200
            ends = urlsplit(answer["url"])
            assert f"{ends.scheme}://{ends.netloc}{ends.path}" == f"{at.provider.issuer}/end"
            assert parse_qs(ends.query) == {
                "client_id": [CLIENT_ID],
                "post_logout_redirect_uri": [str(at.client.make_url("/"))],
            }
            assert at.provider.revoked == ["alice"]
            await alice.sees("/topics", 401)
            await again.sees("/topics")
            status, _ = await alice.ask("POST", "/logout", {})
            assert status == 204
            at.provider.metadata = {"end_session_endpoint": None}
            at.clock.passed_ms += 3_600_000
            await again.log_in()
            status, _ = await again.ask("POST", "/logout", {})
            assert status == 204

    asyncio.run(run())


def test_a_provider_that_is_away_or_another_one_lets_nobody_leave(tmp_path: Path) -> None:
    """CON-153: in words; an address that is not encrypted is refused wherever it comes from."""
    bent: list[dict[str, Any]] = [
        {"issuer": "https://evil.example"},
        {"token_endpoint": "http://evil.example/token"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"jwks_uri": None},
        {"code_challenge_methods_supported": ["plain"]},
    ]

    async def run() -> None:
        async with stage(tmp_path) as at:
            browser = at.browser()
            for metadata in bent:
                at.provider.metadata = metadata
                status, answer = await browser.ask("POST", "/login/begin", {})
                assert (status, answer["error"]) == (502, "PROVIDER_UNREACHABLE"), metadata
            at.provider.metadata, at.provider.is_away = {}, True
            status, answer = await browser.ask("POST", "/login/begin", {})
            assert status == 502
            at.provider.is_away = False
            await browser.log_in()

    asyncio.run(run())

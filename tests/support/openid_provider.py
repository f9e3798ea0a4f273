"""A small OpenID provider on the loopback address: real codes, PKCE, refresh tokens that rotate.

It asks no password: whoever it shows its form to names a user, as at a provider's test realm. What
it says can be bent, for tests of who must not believe it.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlencode

from aiohttp import web

from tests.support.token_issuer import TokenIssuer, key_set

CLIENT_ID = "barnabas-console"
AUDIENCE = "barnabas"
_FORM = """<!doctype html><html lang="en">
<title>Log in</title><link rel="icon" href="data:,"><h1>Provider</h1>
<form method="post"><label>User <input name="user" autofocus></label><button>Go on</button></form>
"""


class OpenIdProvider:
    """One provider with one registered client."""

    def __init__(self, client_secret: str | None = None) -> None:
        self.client_secret = client_secret
        self.signer = TokenIssuer()
        self.published = [self.signer]
        self.id_signer = self.signer
        """What signs ID tokens; another one than is published, for a forger."""
        self.metadata: dict[str, Any] = {}
        self.id_claims: dict[str, Any] = {}
        self.access_claims: dict[str, Any] = {}
        self.answer: dict[str, Any] = {}
        """What the token endpoint says instead; None leaves a field out."""
        self.lifetime_seconds = 3_600
        self.is_away = False
        self.code_requests = 0
        self.refreshes = 0
        #: A refresh token that was taken is answered only when this is set.
        self.may_refresh = asyncio.Event()
        self.may_refresh.set()
        self.revoked: list[str] = []
        self.ended: list[Mapping[str, str]] = []
        self._codes: dict[str, tuple[dict[str, str], str]] = {}
        self._refresh_tokens: dict[str, str] = {}

    @property
    def issuer(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    def broker_settings(self, keys_url: str) -> dict[str, str]:
        """What brokers verify its access tokens by."""
        return {
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "sasl.oauthbearer.expected.issuer": self.issuer,
            "sasl.oauthbearer.jwks.endpoint.url": keys_url,
        }

    def keys(self) -> bytes:
        """Its key set."""
        return key_set(*self.published)

    def forget_refresh_tokens(self) -> None:
        """Refuse all that it has issued, as when an administrator ends everybody's sessions."""
        self._refresh_tokens.clear()

    async def __aenter__(self) -> Self:
        application = web.Application()
        application.router.add_get("/.well-known/openid-configuration", self._discovery)
        application.router.add_get("/keys", self._keys)
        application.router.add_get("/authorize", self._show_form)
        application.router.add_post("/authorize", self._authorize)
        application.router.add_post("/token", self._token)
        application.router.add_post("/revoke", self._revoke)
        application.router.add_get("/end", self._end)
        self._runner = web.AppRunner(application, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._runner.cleanup()

    async def _discovery(self, _: web.Request) -> web.Response:
        if self.is_away:
            raise web.HTTPServiceUnavailable
        return web.json_response(
            {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys",
                "revocation_endpoint": f"{self.issuer}/revoke",
                "end_session_endpoint": f"{self.issuer}/end",
                "code_challenge_methods_supported": ["S256"],
                "authorization_response_iss_parameter_supported": True,
                **self.metadata,
            }
        )

    async def _keys(self, _: web.Request) -> web.Response:
        return web.Response(body=self.keys())

    async def _show_form(self, request: web.Request) -> web.Response:
        query = request.query
        wanted = (query["response_type"], query["client_id"], query["code_challenge_method"])
        assert wanted == ("code", CLIENT_ID, "S256"), wanted
        return web.Response(text=_FORM, content_type="text/html")

    async def _authorize(self, request: web.Request) -> web.Response:
        asked, user = dict(request.query), str((await request.post())["user"])
        found = {"state": asked["state"], "iss": self.issuer}
        if user == "nobody":
            found["error"] = "access_denied"
        else:
            found["code"] = secrets.token_urlsafe()
            self._codes[found["code"]] = asked, user
        raise web.HTTPFound(f"{asked['redirect_uri']}?{urlencode(found)}")

    async def _token(self, request: web.Request) -> web.Response:
        form = {name: str(value) for name, value in (await request.post()).items()}
        if self.is_away:
            raise web.HTTPServiceUnavailable
        if not self._is_client(request, form):
            return web.json_response({"error": "invalid_client"}, status=401)
        if form["grant_type"] == "refresh_token":
            self.refreshes += 1
            user = self._refresh_tokens.pop(form["refresh_token"], None)
            nonce = None
            await self.may_refresh.wait()
        else:
            self.code_requests += 1
            user, nonce = self._redeemed(form)
        if user is None:
            return web.json_response({"error": "invalid_grant"}, status=400)
        return web.json_response(self._tokens(user, nonce))

    def _is_client(self, request: web.Request, form: Mapping[str, str]) -> bool:
        if form.get("client_id") != CLIENT_ID:
            return False
        if self.client_secret is None:
            return True
        # RFC 6749, section 2.3.1: both are encoded before the header is made.
        pair = f"{CLIENT_ID}:{quote(self.client_secret, safe='')}"
        login = base64.b64encode(pair.encode()).decode()
        return request.headers.get("Authorization") == f"Basic {login}"

    def _redeemed(self, form: Mapping[str, str]) -> tuple[str | None, str | None]:
        """Whose code it is, and the nonce; a code is good once, by its own verifier alone."""
        asked, user = self._codes.pop(form["code"], ({}, None))
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        same = ("redirect_uri", form["redirect_uri"]), ("code_challenge", challenge)
        if any(asked.get(name) != value for name, value in same):
            return None, None
        return user, asked["nonce"]

    def _tokens(self, user: str, nonce: str | None) -> dict[str, Any]:
        now, life = time.time(), self.lifetime_seconds
        claims = {"iss": self.issuer, "sub": user, "iat": now, "exp": now + 3_600}
        access = self.signer.token(now, **{**claims, "aud": AUDIENCE, **self.access_claims})
        digest = hashlib.sha256(access.encode()).digest()
        half = base64.urlsafe_b64encode(digest[:16]).decode().rstrip("=")
        identity = {**claims, "aud": CLIENT_ID, "nonce": nonce, "at_hash": half, **self.id_claims}
        refresh_token = secrets.token_urlsafe()
        self._refresh_tokens[refresh_token] = user
        answer = {
            "token_type": "Bearer",
            "access_token": access,
            "id_token": self.id_signer.token(now, **identity),
            "refresh_token": refresh_token,
            "expires_in": life,
            **self.answer,
        }
        return {name: value for name, value in answer.items() if value is not None}

    async def _revoke(self, request: web.Request) -> web.Response:
        token = str((await request.post())["token"])
        self.revoked.append(self._refresh_tokens.pop(token, ""))
        return web.Response()

    async def _end(self, request: web.Request) -> web.Response:
        self.ended.append(dict(request.query))
        raise web.HTTPFound(request.query["post_logout_redirect_uri"])


@contextmanager
def served_provider() -> Iterator[OpenIdProvider]:
    """A provider in a thread of its own, for tests whose thread has another loop."""
    provider, up, stop = OpenIdProvider(), threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def main() -> None:
        loops.append(asyncio.get_running_loop())
        async with provider:
            up.set()
            await stop.wait()

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    try:
        assert up.wait(10)
        yield provider
    finally:
        loops[0].call_soon_threadsafe(stop.set)
        thread.join()

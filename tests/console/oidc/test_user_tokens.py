"""Tokens of who has logged in, renewed once for all that wait (CON-140)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest

from barnabas_client.env import SystemClock
from barnabas_client.errors import AuthenticationError
from barnabas_console.oidc.login_attempts import LoginAttempts
from barnabas_console.oidc.oidc_settings import OidcSettings
from barnabas_console.oidc.provider import Provider
from barnabas_console.oidc.user_tokens import UserTokens
from tests.support.in_process_broker import eventually
from tests.support.openid_provider import CLIENT_ID, OpenIdProvider
from tests.support.simulated_clock import SimulatedClock

CALLBACK = "http://127.0.0.1:9640/oidc/callback"
LIFETIME_SECONDS = 300


@dataclass
class LogIn:
    """One log-in, and the provider that it is with."""

    provider: OpenIdProvider
    tokens: UserTokens
    clock: SimulatedClock

    async def begun_refresh(self) -> asyncio.Task[str]:
        """A request that waits for a fresh token, whose refresh token the provider has taken."""
        self.provider.may_refresh.clear()
        self.clock.advance(LIFETIME_SECONDS * 1_000 - 10_000)
        before = self.provider.refreshes
        request = asyncio.create_task(self.tokens.token())

        async def is_taken() -> bool:
            return self.provider.refreshes > before

        await eventually(is_taken)
        return request


@asynccontextmanager
async def log_in() -> AsyncIterator[LogIn]:
    async with OpenIdProvider() as provider:
        provider.lifetime_seconds = LIFETIME_SECONDS
        clock = SimulatedClock(wall_ms=SystemClock().wall_ms())
        ours = Provider(OidcSettings(issuer=provider.issuer, client_id=CLIENT_ID), clock)
        try:
            attempt = LoginAttempts(clock).begin("a browser")
            url = await ours.login_url(attempt, CALLBACK)
            async with (
                aiohttp.ClientSession() as browser,
                browser.post(url, data={"user": "alice"}, allow_redirects=False) as answer,
            ):
                query = parse_qs(urlsplit(answer.headers["Location"]).query)
            found = await ours.tokens_for_code(query["code"][0], attempt, CALLBACK)
            user = await ours.verified(found, attempt.nonce, is_first=True)
            yield LogIn(provider, UserTokens(ours, clock, found, user, attempt.nonce), clock)
        finally:
            await ours.close()


def test_a_refresh_goes_on_when_the_request_that_began_it_goes_away() -> None:
    """A refresh token that rotates is good once: were its answer lost, so would be the log-in."""

    async def run() -> None:
        async with log_in() as at:
            before = await at.tokens.token()
            request = await at.begun_refresh()
            request.cancel()
            await asyncio.wait({request})
            at.provider.may_refresh.set()
            assert await at.tokens.token() != before
            assert at.provider.refreshes == 1

    asyncio.run(run())


def test_all_that_wait_share_a_refresh_that_fails() -> None:
    """Else each of them would wait for a provider that does not answer, one after the other."""

    async def run() -> None:
        async with log_in() as at:
            before = await at.tokens.token()
            at.provider.answer = {"token_type": "none"}
            requests = [await at.begun_refresh()]
            requests += [asyncio.create_task(at.tokens.token()) for _ in range(9)]
            await asyncio.sleep(0)
            at.provider.may_refresh.set()
            assert await asyncio.gather(*requests) == [before] * 10  # it still holds
            assert at.provider.refreshes == 1

    asyncio.run(run())


def test_what_a_refresh_brings_is_revoked_with_the_log_in() -> None:
    """CON-140: a log-out in the middle of a refresh leaves no refresh token that is good."""

    async def run() -> None:
        async with log_in() as at:
            request = await at.begun_refresh()
            ended = asyncio.create_task(at.tokens.revoke())
            await asyncio.sleep(0)
            at.provider.may_refresh.set()
            await ended
            assert at.provider.revoked == ["alice"]
            with pytest.raises(AuthenticationError):
                await request

    asyncio.run(run())

"""The provider as the console asks it: one attempt at a time, for all that wait."""

import asyncio

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from barnabas_client.env import SystemClock
from barnabas_console.oidc.oidc_settings import OidcSettings
from barnabas_console.oidc.provider import Provider, ProviderError


def test_all_that_wait_for_a_provider_that_fails_share_an_attempt() -> None:
    """CON-161: one after the other they would hold the seats of everybody who is logged in."""
    asked: list[str] = []
    may_answer = asyncio.Event()

    async def fail(request: web.Request) -> web.Response:
        asked.append(request.path)
        await may_answer.wait()
        raise web.HTTPServiceUnavailable

    async def run() -> None:
        app = web.Application()
        app.router.add_get("/{path:.*}", fail)
        async with TestServer(app) as server:
            issuer = str(server.make_url("")).rstrip("/")
            provider = Provider(OidcSettings(issuer=issuer, client_id="console"), SystemClock())
            waiting = [asyncio.create_task(provider.metadata()) for _ in range(10)]
            await asyncio.sleep(0)  # each of them waits by now
            may_answer.set()
            results = await asyncio.gather(*waiting, return_exceptions=True)
            assert {type(one) for one in results} == {ProviderError}
            assert asked == ["/.well-known/openid-configuration"]
            with pytest.raises(ProviderError):
                await provider.metadata()  # a failure is not kept
            assert len(asked) == 2
            await provider.close()

    asyncio.run(run())

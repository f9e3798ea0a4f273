"""Log-in with an OpenID provider: `POST /api/v1/login/begin`, then `/login` with what came back.

The provider sends the browser to a path that only shows the page; the page posts code and state
with its own header. So every route of the API keeps its rules, and all cookies are strict.

Source: RFC 6749, RFC 7636, RFC 9207, RFC 9700; CON-140.
"""

from __future__ import annotations

import json
import logging
from typing import Any, Final

from aiohttp import web

from barnabas_client.errors import AuthenticationError
from barnabas_console.api.request_body import json_object, text_field
from barnabas_console.api.responses import ApiError, json_response
from barnabas_console.api.route_kinds import reads
from barnabas_console.api.token_subject import subject_of
from barnabas_console.context import ConsoleContext
from barnabas_console.oidc.login_attempts import ATTEMPT_MS, LoginAttempt, LoginAttempts
from barnabas_console.oidc.oidc_settings import CALLBACK_PATH
from barnabas_console.oidc.provider import LoginRefusedError, Provider, ProviderError
from barnabas_console.oidc.user_tokens import UserTokens

COOKIE: Final = "barnabas_console_login"
CODE_LENGTH_MAX: Final = 4_096

logger = logging.getLogger(__name__)


def oidc_routes(context: ConsoleContext, provider: Provider) -> list[web.RouteDef]:
    """The routes of this module."""
    attempts = LoginAttempts(context.clock)
    prefix = context.settings.path_prefix

    @reads
    async def begin(request: web.Request) -> web.Response:
        browser = attempts.browser(request.cookies.get(COOKIE))
        try:
            url = await provider.login_url(attempts.begin(browser), _callback(request))
        except ProviderError as error:
            raise _provider_failure(error) from error
        response = json_response(request, {"url": url})
        response.set_cookie(
            COOKIE,
            browser,
            path=f"{prefix}/api/v1/login",
            max_age=ATTEMPT_MS // 1_000,
            httponly=True,
            secure=True,
            samesite="Strict",
        )
        return response

    @reads
    async def login(request: web.Request) -> web.Response:
        body = await json_object(request)
        code, state = text_field(body, "code"), text_field(body, "state")
        attempt = attempts.take(request.cookies.get(COOKIE), state)
        if attempt is None or not 0 < len(code) <= CODE_LENGTH_MAX:
            raise ApiError(
                400,
                "LOGIN_FAILED",
                "this log-in was not begun in this browser, was used before, or is too old",
                hint="Log in again.",
            )
        try:
            await _check_issuer(provider, body.get("iss"))
            tokens = await _tokens_of(request, code, attempt)
        except ProviderError as error:
            raise _provider_failure(error) from error
        response = web.Response(status=204)
        await _let_in(request, response, tokens)
        return response

    def _callback(request: web.Request) -> str:
        return f"{context.address(request)}{CALLBACK_PATH}"

    async def _tokens_of(request: web.Request, code: str, attempt: LoginAttempt) -> UserTokens:
        answer = await provider.tokens_for_code(code, attempt, _callback(request))
        user = await provider.verified(answer, attempt.nonce, is_first=True)
        return UserTokens(provider, context.clock, answer, user, attempt.nonce)

    async def _let_in(request: web.Request, response: web.Response, tokens: UserTokens) -> None:
        try:
            name = subject_of(await tokens.token()) or tokens.subject
            connection = context.connection.with_token(f"User:{name}", tokens.token)
            credentials = json.dumps([provider.settings.issuer, tokens.subject])
            await context.viewers.log_in(request, response, connection, credentials, tokens)
        except AuthenticationError:
            raise ApiError(
                401, "LOGIN_FAILED", "the cluster's brokers do not take this provider's token"
            ) from None

    return [web.post("/api/v1/login/begin", begin), web.post("/api/v1/login", login)]


async def _check_issuer(provider: Provider, named: Any) -> None:
    """Refuse what another provider sent (mix-up, RFC 9207). Raises: ProviderError."""
    metadata = await provider.metadata()
    if named != provider.settings.issuer and (named is not None or metadata.names_itself):
        raise LoginRefusedError("the answer comes from another provider")


def _provider_failure(error: ProviderError) -> ApiError:
    """What the page says; a bad log-in is the browser's, an absent provider nobody's fault."""
    logger.info("no log-in: %s", error)
    if isinstance(error, LoginRefusedError):
        return ApiError(401, "LOGIN_FAILED", str(error), hint="Log in again.")
    return ApiError(502, "PROVIDER_UNREACHABLE", str(error), hint="Try again in a moment.")

"""The OpenID provider over HTTP: its metadata and keys, and tokens for a code or a refresh token.

Not here: what an attempt and an ID token must be (`login_attempts.py`, `id_tokens.py`).

Source: RFC 6749, RFC 7009, RFC 7636; OpenID Connect Core 1.0, section 3.1.3.

Invariants: no redirect is followed; no answer above `ANSWER_BYTES_MAX` is held; no error repeats a
code, a token or a secret; who needs metadata or keys waits for one attempt at them, shared by all.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

import aiohttp

from barnabas_client.env import Clock
from barnabas_console.http_bodies import body_of
from barnabas_console.oidc.id_tokens import IdToken, IdTokenRules, verified_id_token
from barnabas_console.oidc.login_attempts import LoginAttempt
from barnabas_console.oidc.oidc_settings import OidcSettings
from barnabas_console.oidc.provider_metadata import MetadataError, ProviderMetadata
from barnabas_console.shared_calls import SharedCalls
from barnabas_protocol.web_tokens.key_set import KeySetError, SigningKey, parse_key_set
from barnabas_protocol.web_tokens.token_rules import UnknownKeyError
from barnabas_protocol.web_tokens.web_token import TokenRefusedError

ANSWER_BYTES_MAX: Final = 1024 * 1024
TIMEOUT_SECONDS: Final = 10
FRESH_MS: Final = 3_600_000
"""So old at most its metadata and keys are used, where they can be read anew."""
KEYS_MS: Final = 60_000
"""So soon at the earliest keys are fetched again for a token whose key is not known."""
TOKEN_LENGTH_MAX: Final = 64 * 1024
EXPIRES_IN_MAX: Final = 365 * 86_400
_CONNECTIONS: Final = 8
_METADATA: Final = "metadata"
_KEYS: Final = "keys"


class ProviderError(Exception):
    """The provider does not answer as it should; the message says what it said."""


class LoginRefusedError(ProviderError):
    """The provider, or what it sent, says that this log-in is none: trying again does not help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenAnswer:
    """The tokens of one user; what did not come is empty, or None."""

    access_token: str = field(repr=False)
    id_token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    expires_in_ms: int | None


class Provider:
    """One provider, for one registered client."""

    def __init__(self, settings: OidcSettings, clock: Clock) -> None:
        self.settings = settings
        self._clock = clock
        self._http: aiohttp.ClientSession | None = None
        self._calls = SharedCalls(clock)
        self._metadata: ProviderMetadata | None = None
        self._keys: dict[str, SigningKey] | None = None
        self._keys_ms = 0

    async def metadata(self) -> ProviderMetadata:
        """What the provider says of itself; what was read stays where it cannot be read anew.

        Raises: ProviderError.
        """
        return await self._calls.shared(_METADATA, self._read_metadata, ttl_ms=FRESH_MS)

    async def login_url(self, attempt: LoginAttempt, redirect_uri: str) -> str:
        """Where a browser goes to log in. Raises: ProviderError."""
        return _with_query(
            (await self.metadata()).authorization_endpoint,
            response_type="code",
            client_id=self.settings.client_id,
            redirect_uri=redirect_uri,
            scope=" ".join(self.settings.scopes),
            state=attempt.state,
            nonce=attempt.nonce,
            code_challenge=attempt.code_challenge,
            code_challenge_method="S256",
        )

    async def logout_url(self, return_to: str) -> str | None:
        """Where a browser goes to log out of the provider, too. Raises: ProviderError."""
        found = (await self.metadata()).end_session_endpoint
        if not found:
            return None
        client = self.settings.client_id
        return _with_query(found, client_id=client, post_logout_redirect_uri=return_to)

    async def tokens_for_code(
        self, code: str, attempt: LoginAttempt, redirect_uri: str
    ) -> TokenAnswer:
        """The tokens that a code is for. Raises: ProviderError, LoginRefusedError."""
        return await self._tokens(
            grant_type="authorization_code",
            code=code,
            redirect_uri=redirect_uri,
            code_verifier=attempt.code_verifier,
        )

    async def tokens_for_refresh(self, refresh_token: str) -> TokenAnswer:
        """Fresh tokens. Raises: ProviderError, LoginRefusedError."""
        return await self._tokens(grant_type="refresh_token", refresh_token=refresh_token)

    async def revoke(self, refresh_token: str) -> None:
        """Make a refresh token good for nothing, where the provider has that. Raises: as above."""
        url = (await self.metadata()).revocation_endpoint
        if url:
            await self._posted(url, {"token": refresh_token, "token_type_hint": "refresh_token"})

    async def verified(self, answer: TokenAnswer, nonce: str, *, is_first: bool) -> IdToken:
        """Whose tokens came. Raises: ProviderError, LoginRefusedError."""
        if not answer.id_token:
            raise LoginRefusedError("the provider sent no ID token")
        rules = IdTokenRules(
            issuer=self.settings.issuer,
            client_id=self.settings.client_id,
            nonce=nonce,
            is_first=is_first,
        )
        now_ms = self._clock.wall_ms()
        for is_last in (False, True):
            keys = await self._signing_keys(anew=is_last)
            given = (answer.id_token, keys, rules, answer.access_token, now_ms)
            try:
                return await asyncio.to_thread(verified_id_token, *given)
            except UnknownKeyError as error:
                if is_last:
                    raise LoginRefusedError(f"the ID token is refused: {error}") from error
            except TokenRefusedError as error:
                raise LoginRefusedError(f"the ID token is refused: {error}") from error
        raise AssertionError("unreachable: the last turn returns or raises")

    async def close(self) -> None:
        """Close the connections."""
        await self._calls.close()
        if self._http is not None:
            await self._http.close()

    async def _signing_keys(self, *, anew: bool) -> dict[str, SigningKey]:
        """The keys, read `anew` for a token whose key is not known. Raises: ProviderError."""
        if anew and self._clock.monotonic_ms() - self._keys_ms >= KEYS_MS:
            self._calls.forget(_KEYS)
        try:
            return await self._calls.shared(_KEYS, self._read_keys, ttl_ms=FRESH_MS)
        except ProviderError:
            if self._keys is None or anew:
                raise
            return self._keys

    async def _read_metadata(self) -> ProviderMetadata:
        url = f"{self.settings.issuer.rstrip('/')}/.well-known/openid-configuration"
        try:
            document = _object(await self._got(url))
            self._metadata = ProviderMetadata.parse(document, self.settings.issuer)
        except (ProviderError, MetadataError) as error:
            if self._metadata is None:
                raise ProviderError(f"{self.settings.provider_name}: {error}") from error
        return self._metadata

    async def _read_keys(self) -> dict[str, SigningKey]:
        try:
            keys = parse_key_set(await self._got((await self.metadata()).jwks_uri))
        except (ProviderError, KeySetError) as error:
            raise ProviderError(f"the provider's keys cannot be used: {error}") from error
        self._keys, self._keys_ms = keys, self._clock.monotonic_ms()
        return keys

    async def _tokens(self, **form: str) -> TokenAnswer:
        status, body = await self._posted((await self.metadata()).token_endpoint, form)
        document = _object(body) if status == 200 else {}
        if str(document.get("token_type", "")).lower() != "bearer":
            raise ProviderError("the provider sent no bearer token")
        answer = TokenAnswer(
            access_token=_token(document, "access_token"),
            id_token=_token(document, "id_token"),
            refresh_token=_token(document, "refresh_token"),
            expires_in_ms=_expires_in_ms(document.get("expires_in")),
        )
        if not answer.access_token:
            raise ProviderError("the provider sent no access token")
        return answer

    async def _posted(self, url: str, form: Mapping[str, str]) -> tuple[int, bytes]:
        """Post as the registered client. Raises: ProviderError, LoginRefusedError for a 4xx."""
        fields, headers = {**form, "client_id": self.settings.client_id}, {}
        secret = self.settings.client_secret
        if secret is not None and (await self.metadata()).takes_secret_in_body:
            fields["client_secret"] = secret
        elif secret is not None:
            # RFC 6749, section 2.3.1: both are encoded first.
            pair = f"{quote(self.settings.client_id, safe='')}:{quote(secret, safe='')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        status, body = await self._asked("POST", url, data=fields, headers=headers)
        if 400 <= status < 500 and status not in (408, 429):
            raise LoginRefusedError(f"the provider refused: {_error_code(body)}")
        if status >= 300:
            raise ProviderError(f"the provider answered {status}")
        return status, body

    async def _got(self, url: str) -> bytes:
        status, body = await self._asked("GET", url)
        if status != 200:
            raise ProviderError(f"{urlsplit(url).path} answered {status}")
        return body

    async def _asked(self, method: str, url: str, **options: Any) -> tuple[int, bytes]:
        try:
            async with self._opened().request(
                method, url, allow_redirects=False, **options
            ) as response:
                body = await body_of(response, ANSWER_BYTES_MAX)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise ProviderError(f"the provider does not answer: {type(error).__name__}") from error
        if body is None:
            raise ProviderError("the provider's answer is too large")
        return response.status, body

    def _opened(self) -> aiohttp.ClientSession:
        if self._http is None:
            context = ssl.create_default_context(cafile=self.settings.authority_file)
            self._http = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=TIMEOUT_SECONDS),
                connector=aiohttp.TCPConnector(limit=_CONNECTIONS, ssl=context),
                headers={"Accept": "application/json"},
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._http


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise ProviderError("the provider did not answer in JSON") from None
    if not isinstance(found, dict):
        raise ProviderError("the provider did not answer with an object")
    return found


def _token(document: Mapping[str, Any], name: str) -> str:
    value = document.get(name)
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > TOKEN_LENGTH_MAX or not value.isascii():
        raise ProviderError(f"the provider's {name} is no token")
    return value


def _expires_in_ms(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not value > 0:  # NaN is not
        return 0
    return int(min(value, EXPIRES_IN_MAX) * 1000)


def _error_code(body: bytes) -> str:
    """The code of RFC 6749, section 5.2; free text of others is not repeated."""
    try:
        code = _object(body).get("error")
    except ProviderError:
        code = None
    is_code = isinstance(code, str) and code.isascii() and code.replace("_", "").isalnum()
    return str(code)[:64] if is_code else "it gave no reason"


def _with_query(url: str, **parameters: str) -> str:
    """The address with these, beside those that it has."""
    parts = urlsplit(url)
    query = "&".join(filter(None, (parts.query, urlencode(parameters))))
    return urlunsplit(parts._replace(query=query))

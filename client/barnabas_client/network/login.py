"""What a client logs in with: a `SaslClient` for each connection and each time it logs in again.

A token is looked up before each of them, outside of the event loop: files of tokens are renewed by
their owners long before the old ones end (SEC-29), and a callback may take its time.

Not here: the mechanisms (`barnabas_protocol.connection.sasl`), when to log in (`connection.py`).
Invariants: no error repeats a password or a token.
"""

from __future__ import annotations

import asyncio
import inspect
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, Protocol

from barnabas_client.config.client_settings import ClientSettings
from barnabas_client.config.secret_files import warn_if_others_read
from barnabas_client.config.spellings import OAUTHBEARER
from barnabas_client.errors import AuthenticationError, BarnabasError
from barnabas_protocol.connection.sasl import (
    OAuthBearerSaslClient,
    PlainSaslClient,
    SaslClient,
    SaslError,
    ScramSaslClient,
)

_TOKEN_BYTES_MAX: Final = 256 * 1024
"""What the mechanism takes; a larger file is something else."""


class Login(Protocol):
    """Where connections get what they log in with."""

    is_prepared: bool
    """Whether `prepare` must be awaited before each log-in."""

    async def prepare(self) -> None:
        """Get what `create` needs. Raises: AuthenticationError."""
        ...

    def create(self, host: str) -> SaslClient:
        """The client's side of one log-in at a broker."""
        ...


def login_of(settings: ClientSettings) -> Login | None:
    """What the settings say; None where the client does not log in."""
    if not settings.uses_sasl:
        return None
    if settings.sasl_exchange is not None:
        return _GivenLogin(settings.sasl_exchange)
    if settings.sasl_mechanism == OAUTHBEARER:
        return _TokenLogin(settings)
    return _PasswordLogin(settings)


class _GivenLogin:
    is_prepared = False

    def __init__(self, exchange: Callable[[str], Any]) -> None:
        self._exchange = exchange

    async def prepare(self) -> None:
        """Do nothing."""

    def create(self, host: str) -> SaslClient:
        """What the caller's function gives."""
        client: SaslClient = self._exchange(host)
        return client


class _PasswordLogin:
    is_prepared = False

    def __init__(self, settings: ClientSettings) -> None:
        assert settings.sasl_username is not None and settings.sasl_password is not None
        self._mechanism = settings.sasl_mechanism
        self._username, self._password = settings.sasl_username, settings.sasl_password

    async def prepare(self) -> None:
        """Do nothing."""

    def create(self, host: str) -> SaslClient:
        """An exchange of PLAIN or SCRAM."""
        if self._mechanism != PlainSaslClient.mechanism:
            nonce = secrets.token_urlsafe(24)
            return ScramSaslClient(
                self._mechanism, self._username, self._password, nonce, hashes_apart=True
            )
        try:
            return PlainSaslClient(self._username, self._password)
        except SaslError as error:
            raise AuthenticationError(
                f"sasl_username and sasl_password cannot be sent: {error.reason}"
            ) from error


class _TokenLogin:
    is_prepared = True

    def __init__(self, settings: ClientSettings) -> None:
        self._file = settings.sasl_oauthbearer_token_file
        self._callback = settings.sasl_oauthbearer_token_callback
        self._token = ""

    async def prepare(self) -> None:
        """Read the file, or call the callback."""
        if self._callback is not None:
            self._token = await _called(self._callback)
        else:
            assert self._file is not None
            self._token = await asyncio.to_thread(_read, self._file)

    def create(self, host: str) -> SaslClient:
        """Show the token that `prepare` has got."""
        try:
            return OAuthBearerSaslClient(self._token)
        except SaslError as error:
            raise AuthenticationError(f"{self._source}: {error.reason}") from None

    @property
    def _source(self) -> str:
        if self._callback is not None:
            return "sasl_oauthbearer_token_callback"
        return f"sasl_oauthbearer_token_file={self._file!r}"


def _read(path: str) -> str:
    try:
        with Path(path).open("rb") as opened:
            data = opened.read(_TOKEN_BYTES_MAX + 1)
        warn_if_others_read(path, "sasl_oauthbearer_token_file")
    except OSError as error:
        raise AuthenticationError(
            f"sasl_oauthbearer_token_file={path!r} cannot be read: {error.strerror or error}"
        ) from error
    text = data.decode("ascii", "replace").strip()
    if len(data) > _TOKEN_BYTES_MAX or not text:
        problem = "is empty" if not text else f"has more than {_TOKEN_BYTES_MAX} bytes"
        raise AuthenticationError(f"sasl_oauthbearer_token_file={path!r} {problem}")
    return text


async def _called(callback: Callable[[], str | Awaitable[str]]) -> str:
    try:
        if inspect.iscoroutinefunction(callback):
            token = await callback()
        else:
            token = await asyncio.to_thread(callback)
            if inspect.isawaitable(token):
                token = await token
    except BarnabasError:
        raise
    except Exception as error:
        raise AuthenticationError(
            f"sasl_oauthbearer_token_callback failed with {type(error).__name__}"
        ) from error
    if not isinstance(token, str):
        raise AuthenticationError(
            f"sasl_oauthbearer_token_callback gave {type(token).__name__}, not text"
        )
    return token.strip()

"""Verdicts on log-ins: what SASL's exchanges ask for, from credentials, users and tokens.

The shell around `security`: waits until the credentials are loaded, as nobody gets in before
(BOOT-3), and has passwords hashed in threads. Not here: the exchange itself.

Source: SEC-21 to SEC-23, SEC-26.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Protocol

from barnabas_broker.config.sasl_settings import SaslSettings
from barnabas_broker.env.clock import Clock
from barnabas_broker.network.login_work import LoginWork
from barnabas_broker.security.credentials import ScramCredentials
from barnabas_broker.security.sasl.passwords import ConfiguredUsers, fitting_keys
from barnabas_protocol.connection.sasl import (
    Accepted,
    CredentialNeeded,
    PasswordGiven,
    Provision,
    Question,
    TokenGiven,
)

Verdict = Provision | None


class TokenVerifier(Protocol):
    """Verifies bearer tokens."""

    async def verify(self, token: str, host: str) -> Accepted | None:
        """Whose token it is and how long it lasts; None if it is not good."""
        ...


class LoadedCredentials:
    """The credentials that the metadata has, and when they are there."""

    def __init__(self, credentials: ScramCredentials, clock: Clock) -> None:
        self.credentials = credentials
        self._clock = clock
        self._waiting: dict[asyncio.Future[None], None] = {}

    @property
    def now_ms(self) -> int:
        """The time of day, by which former keys are good."""
        return self._clock.wall_ms()

    async def until_loaded(self) -> None:
        """Return when log-ins can be decided."""
        if self.credentials.is_loaded:
            return
        loaded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[loaded] = None
        try:
            await loaded
        finally:
            self._waiting.pop(loaded, None)

    def wake(self) -> None:
        """Let those go on who wait for the credentials."""
        for loaded in list(self._waiting):
            if not loaded.done():
                loaded.set_result(None)


class LoginVerdicts:
    """Answers the questions of the exchanges on one listener."""

    def __init__(
        self,
        settings: SaslSettings,
        loaded: LoadedCredentials,
        work: LoginWork,
        tokens: TokenVerifier | None = None,
    ) -> None:
        self._loaded = loaded
        self._work = work
        self._tokens = tokens
        users = settings.plain_users
        self._users = None if users is None else ConfiguredUsers(users)

    def of(self, question: Question, host: str) -> Verdict | Awaitable[Verdict]:
        """What a question is answered with, now or later; None: the log-in fails."""
        match question:
            case CredentialNeeded():
                if self._loaded.credentials.is_loaded:
                    return self._credential(question)
                return self._credential_later(question)
            case PasswordGiven():
                if self._users is not None:
                    is_good = self._users.is_password_of(question.username, question.password)
                    return Accepted(username=question.username) if is_good else None
                return self._hashed(question, host)
            case TokenGiven():
                return None if self._tokens is None else self._tokens.verify(question.token, host)

    def _credential(self, question: CredentialNeeded) -> Verdict:
        loaded = self._loaded
        return loaded.credentials.find(question.mechanism, question.username, loaded.now_ms)

    async def _credential_later(self, question: CredentialNeeded) -> Verdict:
        await self._loaded.until_loaded()
        return self._credential(question)

    async def _hashed(self, question: PasswordGiven, host: str) -> Verdict:
        await self._loaded.until_loaded()
        credentials = self._loaded.credentials
        mechanism = credentials.mechanism_for_passwords(question.username)
        credential = credentials.find(mechanism, question.username, self._loaded.now_ms)
        keys = await self._work.run(host, fitting_keys, mechanism, credential, question.password)
        # Hashing takes a while, and waiting for its turn longer.
        now = credentials.find(mechanism, question.username, self._loaded.now_ms)
        return Accepted(username=question.username) if keys in now.keys else None

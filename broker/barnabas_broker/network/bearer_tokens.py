"""Verdicts on bearer tokens: by keys that are kept fresh, and by TokenReview where it is wanted.

The shell around `barnabas_protocol.web_tokens`. Signatures are verified in a thread. Why a token
is refused goes to the log; the client learns that it is invalid.

Source: SEC-28, SEC-29.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace

from barnabas_broker.config.definitions import ConfigError
from barnabas_broker.env.clock import Clock
from barnabas_broker.network.limited_lines import LimitedLines
from barnabas_broker.network.login_work import LoginWork
from barnabas_broker.network.signing_keys import KeysUnavailableError, SigningKeys
from barnabas_broker.network.token_reviews import TokenReviews
from barnabas_protocol.connection.sasl import Accepted
from barnabas_protocol.web_tokens.token_rules import (
    GoodToken,
    TokenRules,
    UnknownKeyError,
    verified,
)
from barnabas_protocol.web_tokens.web_token import TokenRefusedError

_log = logging.getLogger(__name__)


class BearerTokens:
    """Verifies the tokens of one listener."""

    def __init__(
        self,
        keys: SigningKeys,
        rules: TokenRules,
        work: LoginWork,
        clock: Clock,
        reviews: TokenReviews | None = None,
        *,
        must_load: bool = False,
    ) -> None:
        """With `must_load`, keys that cannot be had fail the start."""
        self._lines = LimitedLines(_log, clock)
        self._must_load = must_load
        self.keys = keys
        self.reviews = reviews
        self._rules = rules
        self._work = work
        self._clock = clock

    async def start(self) -> None:
        """Fetch the keys if they must be there. Raises: ConfigError."""
        if self._must_load:
            try:
                await self.keys.load()
            except KeysUnavailableError as error:
                raise ConfigError(f"sasl.oauthbearer.jwks.endpoint.url: {error}") from error

    async def close(self) -> None:
        """Close all connections."""
        await self.keys.close()
        if self.reviews is not None:
            await self.reviews.close()

    async def verify(self, token: str, host: str) -> Accepted | None:
        """Whose token it is and how long it lasts; None if it is not good."""
        try:
            good = await self._verified(token, host)
        except TokenRefusedError as error:
            self._refused(host, str(error))
            return None
        if self.reviews is not None and await self.reviews.username_of(token) != good.username:
            self._refused(host, "its review says no")
            return None
        # At least a moment, as 0 would be told as no limit.
        lifetime_ms = max(good.expires_at_ms - self._clock.wall_ms(), 1)
        return Accepted(username=good.username, lifetime_ms=lifetime_ms)

    def _refused(self, host: str, reason: str) -> None:
        message = "a token from %s is refused: %s"
        self._lines.write("token", message, host, reason, level=logging.INFO)

    async def _verified(self, token: str, host: str) -> GoodToken:
        try:
            return await self._verified_now(token, host)
        except UnknownKeyError as error:
            if not await self.keys.look_for(error.key_id):
                raise
        return await self._verified_now(token, host)

    async def _verified_now(self, token: str, host: str) -> GoodToken:
        rules = _with_issuers(self._rules, self.keys.issuers)
        now_ms = self._clock.wall_ms()
        return await self._work.run(host, verified, token, self.keys.keys, rules, now_ms)


def _with_issuers(rules: TokenRules, issuers: Iterable[str]) -> TokenRules:
    """The rules with the issuers that the source of the keys names.

    A token for such an issuer as its audience is meant for the API server: whoever gets to see it
    could be its owner there, so nobody should send it here.
    """
    every = rules.issuers.union(issuers)
    return replace(rules, issuers=every, audiences=rules.audiences - every)

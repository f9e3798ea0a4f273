"""The tokens of one user who has logged in: fresh ones for the brokers as long as there are any.

The brokers see the access token, or the ID token where the settings say so, and verify it
themselves; each new connection and each log-in anew asks for it here.

Invariants: nobody gets a token that is over; one refresh at a time, whose outcome all that wait
share, and which goes on when they go away: a refresh token is good once, the next would be lost;
a refreshed token is of the same subject; once the provider has refused, all is over; refresh tokens
are revoked at the end.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from barnabas_client.env import Clock
from barnabas_client.errors import AuthenticationError, TimedOutError
from barnabas_console.oidc.id_tokens import IdToken
from barnabas_console.oidc.provider import LoginRefusedError, Provider, ProviderError, TokenAnswer

AHEAD_MS: Final = 30_000
"""So long before its end a token is replaced, or a quarter of its life where that is less."""
REVOCATION_SECONDS: Final = 2
"""So long at most the end of a log-in waits for the provider."""

logger = logging.getLogger(__name__)


class UserTokens:
    """What one log-in has got, renewed."""

    def __init__(
        self, provider: Provider, clock: Clock, answer: TokenAnswer, user: IdToken, nonce: str
    ) -> None:
        self.subject = user.subject
        self._provider = provider
        self._clock = clock
        self._nonce = nonce
        self._is_refused = False
        self._refreshing: asyncio.Task[None] | None = None
        self._refresh_token = ""
        self._take(answer, user)

    @property
    def is_over(self) -> bool:
        """Whether there will be no token any more."""
        return self._is_refused or (self._left_ms() <= 0 and not self._refresh_token)

    async def token(self) -> str:
        """What the brokers see. Raises: AuthenticationError once it is over, TimedOutError."""
        if self._is_refresh_due:
            if self._refreshing is None:
                self._refreshing = asyncio.get_running_loop().create_task(self._refresh())
            refreshing = self._refreshing
            await asyncio.wait({refreshing})
            if not refreshing.cancelled():
                refreshing.result()
        if self.is_over:
            raise AuthenticationError("the log-in with the provider is over")
        if self._left_ms() <= 0:
            raise TimedOutError("the provider does not answer, and the last token has expired")
        return self._token

    async def revoke(self) -> None:
        """End it: no token comes out of it any more."""
        self._is_refused = True
        try:
            async with asyncio.timeout(REVOCATION_SECONDS):
                if self._refreshing is not None:
                    await asyncio.wait({self._refreshing})  # another one may come of it
                if self._refresh_token:
                    await self._provider.revoke(self._refresh_token)
        except (ProviderError, TimeoutError) as error:
            logger.info("a refresh token was not revoked: %s", error or type(error).__name__)
        finally:
            self._refresh_token = ""
            if self._refreshing is not None:
                self._refreshing.cancel()

    @property
    def _is_refresh_due(self) -> bool:
        is_possible = not self._is_refused and bool(self._refresh_token)
        return is_possible and self._left_ms() <= self._ahead_ms

    async def _refresh(self) -> None:
        try:
            answer = await self._provider.tokens_for_refresh(self._refresh_token)
            user = await self._user_of(answer)
        except LoginRefusedError as error:
            logger.info("a log-in has ended: %s", error)
            self._is_refused = True
        except ProviderError as error:
            logger.warning("a token could not be refreshed: %s", error)
        else:
            self._take(answer, user)
        finally:
            self._refreshing = None

    async def _user_of(self, answer: TokenAnswer) -> IdToken | None:
        """Who refreshed tokens are of; None where no ID token came, and none is needed."""
        if not answer.id_token and self._provider.settings.token == "access":
            return None
        user = await self._provider.verified(answer, self._nonce, is_first=False)
        if user.subject != self.subject:
            raise LoginRefusedError("the refreshed token is somebody else's")
        return user

    def _take(self, answer: TokenAnswer, user: IdToken | None) -> None:
        now_ms = self._clock.monotonic_ms()
        if self._provider.settings.token == "access":
            self._token = answer.access_token
            life_ms = answer.expires_in_ms
        else:
            assert user is not None
            self._token = answer.id_token
            life_ms = user.expires_at_ms - self._clock.wall_ms()
        self._until_ms = None if life_ms is None else now_ms + life_ms
        self._ahead_ms = 0 if life_ms is None else min(AHEAD_MS, life_ms // 4)
        # A provider that rotates refresh tokens sends a new one; another goes on with the old one.
        self._refresh_token = answer.refresh_token or self._refresh_token

    def _left_ms(self) -> int:
        if self._until_ms is None:
            return 1
        return self._until_ms - self._clock.monotonic_ms()

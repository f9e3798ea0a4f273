"""Who sends a request to the admin HTTP, where it tells callers apart (SEC-63).

By a client certificate, a token of a file, or the token of a ServiceAccount. All of them may do
everything here: whoever may read `/status` and `/metrics` may start a drain.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from barnabas_broker.admin.admin_access import bearer_token
from barnabas_broker.admin.admin_tokens import TokenFile
from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.env.clock import Clock, SystemClock
from barnabas_broker.network.limited_lines import LimitedLines
from barnabas_broker.network.login_verdicts import TokenVerifier
from barnabas_broker.security.principal import ANONYMOUS, Principal

if TYPE_CHECKING:
    from barnabas_broker.security.tls.listener_tls import ListenerTls

logger = logging.getLogger(__name__)

TOKEN_LENGTH_MAX: Final = 16 * 1024
_FROM: Final = "admin"
"""All callers together have the share of one address in the verification of tokens."""

OF_TOKEN_FILE: Final = "admin.http.token.file"
"""Whoever has one of its tokens."""

VerifyToken = Callable[[str], Awaitable[Principal | None]]


class AdminCallers:
    """Those who may use the admin HTTP of one broker."""

    def __init__(
        self,
        principals: Collection[Principal],
        *,
        tokens: TokenFile | None = None,
        principal_of: Callable[[Any], Principal | None] | None = None,
        verify_token: VerifyToken | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`principal_of` tells who has shown a certificate on a connection of TLS.

        `verify_token` tells whose a ServiceAccount's token is, None for one that is not valid.
        """
        self._principals = frozenset(principals) - {ANONYMOUS}  # who shows nothing is nobody
        self._tokens = tokens
        self._principal_of = principal_of
        self._verify_token = verify_token
        self._lines = LimitedLines(logger, clock or SystemClock())
        self.refused_count = 0

    async def caller(self, connection: Any, authorization: str | None) -> str | None:
        """Who sends a request, by its connection (`ssl_object`) and its header; None: nobody."""
        name = self._of_certificate(connection) or await self._of_token(authorization)
        self.refused_count += name is None
        return name

    def _of_certificate(self, connection: Any) -> str | None:
        if connection is None or self._principal_of is None:
            return None
        try:
            return self._named(self._principal_of(connection))
        except ValueError as error:  # a name that cannot be read, or that no rule maps
            self._lines.write(
                "certificate", "a certificate is nobody's on the admin HTTP: %s", str(error)
            )
            return None

    async def _of_token(self, authorization: str | None) -> str | None:
        token = bearer_token(authorization)
        if token is None or len(token) > TOKEN_LENGTH_MAX:
            return None
        if self._tokens is not None and await asyncio.to_thread(self._tokens.has, token):
            return OF_TOKEN_FILE
        return None if self._verify_token is None else self._named(await self._verify_token(token))

    def _named(self, principal: Principal | None) -> str | None:
        return str(principal) if principal in self._principals else None


def admin_callers(
    config: BrokerConfig,
    tls: ListenerTls | None,
    clock: Clock,
    bearer_tokens: Mapping[str, TokenVerifier],
) -> AdminCallers | None:
    """Those whom the settings name; None where whoever reaches the port may read.

    Super users are among them. `bearer_tokens` verifies the tokens of a listener.
    """
    if tls is None and config.admin_http_token_file is None:
        return None

    def principal_of(connection: Any) -> Principal | None:
        shown = None if tls is None else tls.identity_of(connection, clock.wall_ms())
        return None if shown is None else shown.principal

    names = (*config.admin_http_principals, *config.super_users)
    path = config.admin_http_token_file
    verifier = bearer_tokens.get((config.admin_http_token_listener or "").upper())

    async def owner_of(token: str) -> Principal | None:
        accepted = None if verifier is None else await verifier.verify(token, _FROM)
        return None if accepted is None else Principal.user(accepted.username)

    return AdminCallers(
        [Principal.parse(name) for name in names],
        tokens=None if path is None else TokenFile(path),
        principal_of=principal_of,
        verify_token=owner_of if verifier is not None else None,
        clock=clock,
    )

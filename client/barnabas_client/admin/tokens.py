"""Delegation tokens: Create, Renew, Expire, DescribeDelegationToken (38-41)."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas_client.admin.routing import AdminRouting
from barnabas_client.admin.values.tokens import DelegationToken, Principal


class Tokens:
    """`admin.tokens`."""

    def __init__(self, routing: AdminRouting) -> None:
        self._routing = routing

    async def create(
        self,
        *,
        owner: Principal | None = None,
        renewers: Iterable[Principal] = (),
        max_lifetime_ms: int = -1,
        timeout_ms: int | None = None,
    ) -> DelegationToken:
        """A new token, of oneself if no owner is named. Raises: what went wrong."""
        raise NotImplementedError

    async def renew(
        self, hmac: bytes, *, renew_period_ms: int = -1, timeout_ms: int | None = None
    ) -> int:
        """Let a token live longer; returns when it expires, in milliseconds since 1970. Raises: what went wrong."""
        raise NotImplementedError

    async def expire(
        self, hmac: bytes, *, expiry_period_ms: int = -1, timeout_ms: int | None = None
    ) -> int:
        """Let a token expire, at once by default; returns when. Raises: what went wrong."""
        raise NotImplementedError

    async def list(
        self, owners: Iterable[Principal] | None = None, *, timeout_ms: int | None = None
    ) -> tuple[DelegationToken, ...]:
        """The tokens of owners, of all if none are named. Raises: what went wrong."""
        raise NotImplementedError

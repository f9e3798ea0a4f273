"""Credentials for SASL/SCRAM: DescribeUserScramCredentials (50), AlterUserScramCredentials (51)."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas_client.admin.outcome import Outcomes
from barnabas_client.admin.routing import AdminRouting
from barnabas_client.admin.values.scram import ScramCredential, ScramDeletion, ScramUpsertion


class Scram:
    """`admin.scram`."""

    def __init__(self, routing: AdminRouting) -> None:
        self._routing = routing

    async def describe(
        self, users: Iterable[str] | None = None, *, timeout_ms: int | None = None
    ) -> Outcomes[str, tuple[ScramCredential, ...]]:
        """Which credentials users have, all users if none are named. Passwords cannot be read."""
        raise NotImplementedError

    async def alter(
        self, changes: Iterable[ScramUpsertion | ScramDeletion], *, timeout_ms: int | None = None
    ) -> Outcomes[str, None]:
        """Set and remove credentials; the outcome is per user."""
        raise NotImplementedError

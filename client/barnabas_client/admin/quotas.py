"""Quotas: DescribeClientQuotas (48), AlterClientQuotas (49)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from barnabas_client.admin.outcome import Outcomes
from barnabas_client.admin.routing import AdminRouting
from barnabas_client.admin.values.quotas import QuotaEntity, QuotaFilter


class Quotas:
    """`admin.quotas`."""

    def __init__(self, routing: AdminRouting) -> None:
        self._routing = routing

    async def list(
        self,
        filters: Iterable[QuotaFilter] = (),
        *,
        strict: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[QuotaEntity, dict[str, float]]:
        """Quotas by entity, all by default; strict: without entities that have further parts. Raises: what went wrong."""
        raise NotImplementedError

    async def alter(
        self,
        changes: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[QuotaEntity, None]:
        """Set quotas (`producer_byte_rate` ...); None removes one."""
        raise NotImplementedError

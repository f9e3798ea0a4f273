"""Rights: DescribeAcls (29), CreateAcls (30), DeleteAcls (31)."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas_client.admin.outcome import Outcomes
from barnabas_client.admin.routing import AdminRouting
from barnabas_client.admin.values.acls import AclBinding, AclFilter


class Acls:
    """`admin.acls`."""

    def __init__(self, routing: AdminRouting) -> None:
        self._routing = routing

    async def list(
        self, wanted: AclFilter = AclFilter(), *, timeout_ms: int | None = None
    ) -> tuple[AclBinding, ...]:
        """The rights that a filter names, all of them by default. Raises: what went wrong."""
        raise NotImplementedError

    async def create(
        self, bindings: Iterable[AclBinding], *, timeout_ms: int | None = None
    ) -> Outcomes[AclBinding, None]:
        """Give or take rights."""
        raise NotImplementedError

    async def delete(
        self, filters: Iterable[AclFilter], *, timeout_ms: int | None = None
    ) -> Outcomes[AclFilter, tuple[AclBinding, ...]]:
        """Remove the rights that filters name; the value is what was removed."""
        raise NotImplementedError

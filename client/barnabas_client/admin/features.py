"""Features: ApiVersions (18) to read them, UpdateFeatures (57)."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas_client.admin.outcome import Outcomes
from barnabas_client.admin.routing import AdminRouting
from barnabas_client.admin.values.cluster import FeaturesDescription, FeatureUpdate


class Features:
    """`admin.features`."""

    def __init__(self, routing: AdminRouting) -> None:
        self._routing = routing

    async def describe(
        self, *, node_id: int | None = None, timeout_ms: int | None = None
    ) -> FeaturesDescription:
        """What a broker supports and the cluster agreed on. Raises: what went wrong."""
        raise NotImplementedError

    async def update(
        self,
        updates: Mapping[str, FeatureUpdate],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[str, None]:
        """Raise or lower the levels of features."""
        raise NotImplementedError

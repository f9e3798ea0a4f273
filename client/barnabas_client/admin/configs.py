"""Settings: DescribeConfigs (32), AlterConfigs (33), IncrementalAlterConfigs (44), ListConfigResources (74)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from barnabas_client.admin.outcome import Outcomes
from barnabas_client.admin.routing import AdminRouting
from barnabas_client.admin.values.configs import (
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)


class Configs:
    """`admin.configs`."""

    def __init__(self, routing: AdminRouting) -> None:
        self._routing = routing

    async def describe(
        self,
        resources: Iterable[ConfigResource] | Mapping[ConfigResource, Collection[str] | None],
        *,
        include_synonyms: bool = False,
        include_documentation: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[ConfigResource, dict[str, ConfigEntry]]:
        """The settings of resources by name; a mapping says which names are wanted."""
        raise NotImplementedError

    async def alter(
        self,
        changes: Mapping[ConfigResource, Iterable[ConfigChange]],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[ConfigResource, None]:
        """Change some settings and leave the others."""
        raise NotImplementedError

    async def replace(
        self,
        configs: Mapping[ConfigResource, Mapping[str, str | None]],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[ConfigResource, None]:
        """Set all settings anew: what is not named goes back to its default (the legacy AlterConfigs)."""
        raise NotImplementedError

    async def list_resources(
        self, types: Collection[ResourceType] = (), *, timeout_ms: int | None = None
    ) -> tuple[ConfigResource, ...]:
        """What has settings, of all types if none are named. Raises: what went wrong."""
        raise NotImplementedError

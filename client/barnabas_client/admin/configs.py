"""`admin.configs`: DescribeConfigs (32), AlterConfigs (33), IncrementalAlterConfigs (44) and
ListConfigResources (74).

The settings and log levels of one broker are sent to that broker, which knows what it was started
with; all else of any broker, and changes of it too: brokers forward them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from barnabas_client.admin.api_errors import ApiError, error_of
from barnabas_client.admin.lookup_strategies import AnyBrokerStrategy, StaticBrokerStrategy
from barnabas_client.admin.outcome import Outcomes
from barnabas_client.admin.routing import AdminRouting, Call, RequestContext, nameless
from barnabas_client.admin.values.configs import (
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ConfigSynonym,
    ConfigType,
    ResourceType,
)
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages import alter_configs, incremental_alter_configs
from barnabas_protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from barnabas_protocol.messages.list_config_resources import ListConfigResourcesRequest

if TYPE_CHECKING:
    from barnabas_client.network.client import Client

_OF_ONE_BROKER = (ResourceType.BROKER, ResourceType.BROKER_LOGGER)


class Configs:
    """What can be done about settings."""

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
        """The settings of resources, by name; a mapping says which names are wanted (None: all)."""
        if not isinstance(resources, Mapping):
            resources = dict.fromkeys(resources)
        wanted = resources
        call = Call[ConfigResource, dict[str, ConfigEntry]](
            action="describe settings of",
            api=ApiKey.DESCRIBE_CONFIGS,
            to=ResourceOwners(),
            build=lambda context: DescribeConfigsRequest(
                resources=[_wanted(resource, wanted[resource]) for resource in context.keys],
                include_synonyms=include_synonyms,
                include_documentation=include_documentation,
            ),
            read=lambda response, context: {
                _resource(one): error_of(one)
                or {entry.name: _entry(entry) for entry in one.configs}
                for one in response.results
            },
        )
        return await self._routing.each(wanted, call, timeout_ms)

    async def alter(
        self,
        changes: Mapping[ConfigResource, Iterable[ConfigChange]],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[ConfigResource, None]:
        """Change some settings and leave the others as they are.

        The changes of one resource are made all or none.
        """
        wanted = {resource: list(some) for resource, some in changes.items()}
        call = Call[ConfigResource, None](
            action="alter settings of",
            api=ApiKey.INCREMENTAL_ALTER_CONFIGS,
            to=ResourceOwners(),
            build=lambda context: _incremental(context.keys, wanted, validate_only),
            read=_altered,
            is_change=not validate_only,
        )
        return await self._routing.each(wanted, call, timeout_ms)

    async def replace(
        self,
        configs: Mapping[ConfigResource, Mapping[str, str | None]],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[ConfigResource, None]:
        """Set all settings anew: what is not named goes back to its default.

        This is the legacy AlterConfigs, which loses what others change meanwhile; prefer `alter`.
        """
        call = Call[ConfigResource, None](
            action="replace settings of",
            api=ApiKey.ALTER_CONFIGS,
            to=ResourceOwners(),
            build=lambda context: _replacement(context, configs, validate_only),
            read=_altered,
            is_change=not validate_only,
        )
        return await self._routing.each(configs, call, timeout_ms)

    async def list_resources(
        self, types: Collection[ResourceType] = (), *, timeout_ms: int | None = None
    ) -> tuple[ConfigResource, ...]:
        """The resources that have settings, of all types if none are named.

        Raises: UnsupportedError from brokers before Kafka 4.1 for types other than
        CLIENT_METRICS; TimedOutError, or what the broker says.
        """
        is_old_form = set(types) == {ResourceType.CLIENT_METRICS}
        call = Call[None, tuple[ConfigResource, ...]](
            action="list resources with settings",
            api=ApiKey.LIST_CONFIG_RESOURCES,
            to=AnyBrokerStrategy(),
            build=lambda context: ListConfigResourcesRequest(resource_types=list(types)),
            read=lambda response, context: {
                None: error_of(response)
                or tuple(_resource(one) for one in response.config_resources)
            },
            name=nameless,
            version_min=0 if is_old_form else 1,
        )
        return await self._routing.one(call, timeout_ms)


class ResourceOwners:
    """The broker for a resource: a broker's own settings at that broker, others at any."""

    patient: Collection[int] = ()

    def __init__(self) -> None:
        self._any = AnyBrokerStrategy[ConfigResource]()
        self._brokers = StaticBrokerStrategy[ConfigResource](lambda resource: int(resource.name))

    async def locate(
        self, client: Client, keys: Sequence[ConfigResource], timeout_ms: int
    ) -> dict[ConfigResource, int | ApiError]:
        """The broker of each resource; refused where a broker's name is no number."""
        located: dict[ConfigResource, int | ApiError] = {}
        owned, others = [], []
        for key in keys:
            if key.type not in _OF_ONE_BROKER or not key.name:
                others.append(key)
            elif key.name.isdecimal():
                owned.append(key)
            else:
                reason = "a broker is named by its number"
                located[key] = ApiError(ErrorCode.INVALID_REQUEST, reason)
        if owned:
            located.update(await self._brokers.locate(client, owned, timeout_ms))
        if others:
            located.update(await self._any.locate(client, others, timeout_ms))
        return located

    def failed(self, node_id: int) -> None:
        """Request what any broker can serve from another one."""
        self._any.failed(node_id)


def _wanted(resource: ConfigResource, names: Collection[str] | None) -> DescribeConfigsResource:
    return DescribeConfigsResource(
        resource_type=resource.type,
        resource_name=resource.name,
        configuration_keys=None if names is None else list(names),
    )


def _resource(one: Any) -> ConfigResource:
    return ConfigResource(ResourceType(one.resource_type), one.resource_name)


def _entry(entry: Any) -> ConfigEntry:
    return ConfigEntry(
        name=entry.name,
        value=entry.value,
        source=ConfigSource(entry.config_source),
        is_read_only=entry.read_only,
        is_sensitive=entry.is_sensitive,
        synonyms=tuple(
            ConfigSynonym(name=one.name, value=one.value, source=ConfigSource(one.source))
            for one in entry.synonyms
        ),
        type=ConfigType(entry.config_type),
        documentation=entry.documentation or None,
    )


def _incremental(
    resources: Iterable[ConfigResource],
    changes: Mapping[ConfigResource, Sequence[ConfigChange]],
    validate_only: bool,
) -> incremental_alter_configs.IncrementalAlterConfigsRequest:
    return incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[
            incremental_alter_configs.AlterConfigsResource(
                resource_type=resource.type,
                resource_name=resource.name,
                configs=[
                    incremental_alter_configs.AlterableConfig(
                        name=change.name, config_operation=change.operation, value=change.value
                    )
                    for change in changes[resource]
                ],
            )
            for resource in resources
        ],
        validate_only=validate_only,
    )


def _replacement(
    context: RequestContext[ConfigResource],
    configs: Mapping[ConfigResource, Mapping[str, str | None]],
    validate_only: bool,
) -> alter_configs.AlterConfigsRequest:
    return alter_configs.AlterConfigsRequest(
        resources=[
            alter_configs.AlterConfigsResource(
                resource_type=resource.type,
                resource_name=resource.name,
                configs=[
                    alter_configs.AlterableConfig(name=name, value=value)
                    for name, value in configs[resource].items()
                ],
            )
            for resource in context.keys
        ],
        validate_only=validate_only,
    )


def _altered(
    response: Any, _: RequestContext[ConfigResource]
) -> dict[ConfigResource, ApiError | None]:
    return {_resource(one): error_of(one) for one in response.responses}

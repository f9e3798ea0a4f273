"""`admin.quotas`: DescribeClientQuotas (48) and AlterClientQuotas (49), sent to any broker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from barnabas_client.admin.api_errors import error_of
from barnabas_client.admin.lookup_strategies import AnyBrokerStrategy
from barnabas_client.admin.outcome import Outcomes
from barnabas_client.admin.routing import AdminRouting, Call, nameless
from barnabas_client.admin.values.quotas import QuotaEntity, QuotaFilter
from barnabas_protocol.api import ApiKey
from barnabas_protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from barnabas_protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)


class Quotas:
    """What can be done about quotas."""

    def __init__(self, routing: AdminRouting) -> None:
        self._routing = routing

    async def list(
        self,
        filters: Iterable[QuotaFilter] = (),
        *,
        strict: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[QuotaEntity, dict[str, float]]:
        """The quotas of the entities that all filters fit, by name; of all without filters.

        With `strict` an entity may have no parts besides those that filters name.

        Raises: TimedOutError, or what the broker says.
        """
        components = [
            ComponentData(entity_type=one.entity_type, match_type=one.match, match=one.name)
            for one in filters
        ]
        call = Call[None, dict[QuotaEntity, dict[str, float]]](
            action="list quotas",
            api=ApiKey.DESCRIBE_CLIENT_QUOTAS,
            to=AnyBrokerStrategy(),
            build=lambda context: DescribeClientQuotasRequest(components=components, strict=strict),
            read=lambda response, context: {
                None: error_of(response)
                or {
                    _entity(one): {value.key: value.value for value in one.values}
                    for one in response.entries or ()
                }
            },
            name=nameless,
        )
        return await self._routing.one(call, timeout_ms)

    async def alter(
        self,
        changes: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[QuotaEntity, None]:
        """Set quotas of entities (`producer_byte_rate` ...); None removes one."""
        call = Call[QuotaEntity, None](
            action="alter quotas of",
            api=ApiKey.ALTER_CLIENT_QUOTAS,
            to=AnyBrokerStrategy(),
            build=lambda context: AlterClientQuotasRequest(
                entries=[_change(entity, changes[entity]) for entity in context.keys],
                validate_only=validate_only,
            ),
            read=lambda response, context: {
                _entity(one): error_of(one) for one in response.entries
            },
            is_change=not validate_only,
        )
        return await self._routing.each(changes, call, timeout_ms)


def _entity(one: Any) -> QuotaEntity:
    return QuotaEntity.from_parts({part.entity_type: part.entity_name for part in one.entity})


def _change(
    entity: QuotaEntity, quotas: Mapping[str, float | None]
) -> AlterClientQuotasRequestEntryData:
    return AlterClientQuotasRequestEntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.components],
        ops=[
            OpData(key=key, value=0.0 if value is None else value, remove=value is None)
            for key, value in quotas.items()
        ],
    )

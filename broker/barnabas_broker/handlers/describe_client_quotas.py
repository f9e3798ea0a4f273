"""DescribeClientQuotas (48), versions 0 and 1: the quotas of entities that a filter fits (KIP-546).

A component of the filter names a type of entity and either a name, the default, or any of both. An
entity must fit all components; a strict filter takes no entity that has other parts besides.
"""

from collections.abc import Coroutine, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final

from barnabas_broker.controller.client_quotas import CLIENT_ID, ENTITY_TYPES, IP, USER
from barnabas_broker.handlers.request_limits import encode_checked
from barnabas_broker.handlers.services import Services
from barnabas_broker.metadata.records import QuotaEntity
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

_Quotas = Mapping[QuotaEntity, Mapping[str, float]]
_Request = DescribeClientQuotasRequest


class MatchType(IntEnum):
    """How a component of a filter is compared, by its number on the wire."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


LOOP_ENTITIES_MAX: Final = 500
"""So many are looked at and described in a few milliseconds."""


def handle(
    services: Services, in_flight: InFlightRequest, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse | Coroutine[Any, Any, bytes]:
    """Describe the quotas that a filter fits, all without components.

    A coroutine where there are very many: what is sent is made in a thread then.
    """
    _check(request.components)
    quotas = services.image.client_quotas
    if len(quotas) > LOOP_ENTITIES_MAX:
        return services.heavy_work.run(in_flight, _encoded, in_flight, quotas, request)
    return _described(quotas, request)


def _encoded(in_flight: InFlightRequest, quotas: _Quotas, request: _Request) -> bytes:
    return encode_checked(in_flight, _described(quotas, request))


def _described(quotas: _Quotas, request: _Request) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(
        error_message=None,
        entries=[
            EntryData(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                values=[ValueData(key=key, value=value) for key, value in limits.items()],
            )
            for entity, limits in quotas.items()
            if _fits(entity, request.components, request.strict)
        ],
    )


def _check(components: Sequence[ComponentData]) -> None:
    kinds: set[str] = set()
    for component in components:
        kind = component.entity_type
        if not kind:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
        if kind in kinds:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Entity type {kind} cannot appear more than once in the filter.",
            )
        if kind not in ENTITY_TYPES:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        kinds.add(kind)
        _check_match(component)
    if IP in kinds and kinds & {USER, CLIENT_ID}:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component.",
        )


def _check_match(component: ComponentData) -> None:
    try:
        match_type = MatchType(component.match_type)
    except ValueError:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Unknown match type {component.match_type}"
        ) from None
    name = f"MATCH_TYPE_{match_type.name}"
    if match_type is MatchType.EXACT and component.match is None:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Request specified {name}, but set match string to null."
        )
    if match_type is not MatchType.EXACT and component.match is not None:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Request specified {name}, but also specified a match string.",
        )


def _fits(entity: QuotaEntity, components: Sequence[ComponentData], strict: bool) -> bool:
    parts = dict(entity)
    if strict and len(parts) != len(components):
        return False
    return all(
        component.entity_type in parts
        and (
            component.match_type == MatchType.SPECIFIED
            or parts[component.entity_type] == component.match
        )
        for component in components
    )


def failed(request: DescribeClientQuotasRequest, error: KafkaError) -> DescribeClientQuotasResponse:
    """The error alone."""
    return DescribeClientQuotasResponse(
        error_code=error.code, error_message=error.message, entries=None
    )

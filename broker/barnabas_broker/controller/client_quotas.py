"""Quotas of users, client ids and addresses: which there are, and pure commands that change them.

Each entity of a request succeeds or fails alone. Texts of refusals are Kafka's, whose tools print
them. Unlike Kafka this takes no number that is none, no address in two spellings and no name of a
host, which every broker would have to resolve for itself.

Source: KIP-13, KIP-124, KIP-546, KIP-599, KIP-612, QUO-1. Invariant: `ENTITIES_MAX` entities.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metadata.records import ClientQuotaRecord, MetadataRecord, QuotaEntity
from barnabas_broker.network.connection_limits import normal_address
from barnabas_protocol.errors import ErrorCode, KafkaError

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
ENTITY_TYPES: Final = frozenset((USER, CLIENT_ID, IP))

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"


class _Whole(NamedTuple):
    """The largest value of a quota without a fraction, and how Kafka names its type."""

    value_max: float
    type_name: str


_LONG: Final = _Whole(2.0**63, "a LONG")
# By key; None where a fraction is allowed.
_OF_CLIENTS: Final[Mapping[str, _Whole | None]] = {
    PRODUCER_BYTE_RATE: _LONG,
    CONSUMER_BYTE_RATE: _LONG,
    REQUEST_PERCENTAGE: None,
    CONTROLLER_MUTATION_RATE: None,
}
_OF_ADDRESSES: Final[Mapping[str, _Whole | None]] = {
    CONNECTION_CREATION_RATE: _Whole(2.0**31 - 1, "an INT")
}
_EPSILON: Final = 1e-6
ENTITIES_MAX: Final = 50_000
"""Each broker keeps them all, and looks at all of them when it starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaChange:
    """New quotas of one entity by key, None to remove one; as they came, so keys may repeat."""

    entity: Sequence[tuple[str, str | None]]
    quotas: Sequence[tuple[str, float | None]]


def alter(
    image: MetadataImage, changes: Sequence[QuotaChange], *, validate_only: bool = False
) -> tuple[list[MetadataRecord], list[KafkaError | None]]:
    """The records of the changes, and for each entity why it was refused, or None."""
    records: list[MetadataRecord] = []
    errors: list[KafkaError | None] = []
    seen: set[QuotaEntity] = set()
    room = ENTITIES_MAX - len(image.client_quotas)
    for change in changes:
        try:
            entity = _entity(change.entity)
            if entity in seen:
                raise _refusal(f"Ignoring duplicate entity {dict(entity)}")
            seen.add(entity)
            old = image.client_quotas.get(entity)
            changed = _records(entity, old or {}, change.quotas)
            if old is None and changed:
                if room <= 0:
                    raise KafkaError(
                        ErrorCode.POLICY_VIOLATION,
                        f"There are quotas of {ENTITIES_MAX} entities already.",
                    )
                room -= 1
            records += changed
        except KafkaError as error:
            errors.append(error)
        else:
            errors.append(None)
    return ([] if validate_only else records), errors


def _refusal(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, reason)


def _entity(parts: Sequence[tuple[str, str | None]]) -> QuotaEntity:
    """The entity in the order of its types. Raises: KafkaError."""
    for kind, name in parts:
        if kind not in ENTITY_TYPES:
            raise _refusal(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _refusal(f"Empty {kind} not supported")
    entity = dict(parts)
    if len(entity) != len(parts):
        raise _refusal("Invalid empty client quota entity, duplicate entity entry")
    if not entity or (IP in entity and len(entity) > 1):
        raise _refusal("Invalid empty client quota entity")
    if entity.get(IP) is not None:
        _check_address(str(entity[IP]))
    return tuple(sorted(entity.items(), key=lambda part: part[0]))


def _check_address(name: str) -> None:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        raise _refusal(f"{name} is not a valid IP address; names are not resolved") from None
    normal = normal_address(name)
    if normal != name:
        raise _refusal(f"The address {name} is to be written as {normal}")


def _records(
    entity: QuotaEntity, old: Mapping[str, float], quotas: Sequence[tuple[str, float | None]]
) -> list[ClientQuotaRecord]:
    new = dict(quotas)
    if len(new) != len(quotas):
        raise _refusal("Duplicate quota key: no quota of this entity is updated")
    known = _OF_ADDRESSES if entity[0][0] == IP else _OF_CLIENTS
    for key, value in new.items():
        if value is not None:
            if key not in known:
                raise _refusal(f"Invalid configuration key {key}")
            _check_value(key, value, known[key])
    return [
        ClientQuotaRecord(entity, key, value) for key, value in new.items() if old.get(key) != value
    ]


def _check_value(key: str, value: float, whole: _Whole | None) -> None:
    if value <= 0:
        raise _refusal(f"Quota {key} must be greater than 0")
    if math.isnan(value):
        raise _refusal(f"Quota {key} must be a number")
    if whole is None:
        if math.isinf(value):
            raise _refusal(f"Quota {key} must be a number")
        return
    if value > whole.value_max:
        raise _refusal(f"Proposed value for {key} is too large for {whole.type_name}.")
    if value % 1.0 > _EPSILON:
        raise _refusal(f"{key} cannot be a fractional value.")

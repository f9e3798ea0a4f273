"""Quotas of users, client ids and addresses: which there are, and pure commands that change them.

Each entity of a request succeeds or fails alone. Texts of refusals are Kafka's, whose tools print
them. Only what this broker holds clients to is taken; other quotas of Kafka are refused by name.

Source: KIP-13, KIP-546, QUO-1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metadata.records import ClientQuotaRecord, MetadataRecord, QuotaEntity
from barnabas_protocol.errors import ErrorCode, KafkaError

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
ENTITY_TYPES: Final = frozenset((USER, CLIENT_ID, IP))

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
_OF_CLIENTS: Final = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE)
_OF_ADDRESSES: Final = ("connection_creation_rate",)
# Quotas of Kafka that nothing here is held to yet: they would be promises that nobody keeps.
_UNSERVED: Final = frozenset(
    ("request_percentage", "controller_mutation_rate", "connection_creation_rate")
)
_EPSILON: Final = 1e-6


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
    for change in changes:
        try:
            entity = _entity(change.entity)
            if entity in seen:
                raise _refusal(f"Ignoring duplicate entity {dict(entity)}")
            seen.add(entity)
            records += _records(entity, image.client_quotas.get(entity, {}), change.quotas)
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
    return tuple(sorted(entity.items(), key=lambda part: part[0]))


def _records(
    entity: QuotaEntity, old: Mapping[str, float], quotas: Sequence[tuple[str, float | None]]
) -> list[ClientQuotaRecord]:
    new = dict(quotas)
    if len(new) != len(quotas):
        raise _refusal("Duplicate quota key: no quota of this entity is updated")
    known = _OF_ADDRESSES if entity[0][0] == IP else _OF_CLIENTS
    for key, value in new.items():
        if value is None:
            continue
        if key in _UNSERVED:
            raise _refusal(f"The quota {key} is not supported by this broker")
        if key not in known:
            raise _refusal(f"Invalid configuration key {key}")
        if not abs(value) < float(2**63):
            raise _refusal(f"Configuration {key} must be a Long value")
        if abs(int(value + _EPSILON) - value) > _EPSILON:
            raise _refusal(f"Configuration {key} must be a Long value")
    return [
        ClientQuotaRecord(entity, key, value) for key, value in new.items() if old.get(key) != value
    ]

"""The body of `POST plans` as a change: `{"kind": "reset-offsets", "group": ..., ...}`.

Invariant: whatever the body holds, what makes no sense is a ChangeRequestError in words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from barnabas_client.admin.values.acls import AclBinding
from barnabas_client.admin.values.quotas import QuotaEntity
from barnabas_client.facts.access_facts import EnumT, member_of
from barnabas_client.facts.offsets_reset import Wanted
from barnabas_console.plans.access_changes import ChangeAcl, ChangeQuotas, FenceProducer
from barnabas_console.plans.change import Change, ChangeRequestError
from barnabas_console.plans.group_changes import (
    OFFSETS_TEXT_MAX,
    DeleteGroup,
    ResetOffsets,
    kind_of_group,
)
from barnabas_console.plans.topic_changes import ApplyTopic, RemoveRecords, RemoveTopic
from barnabas_protocol.acl import AclOperation, AclPermission, AclResourceType, PatternType
from barnabas_protocol.settings.units import without_unit

_TEXT_MAX: Final = 32 * 1024
_ITEMS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What a change knows besides its request."""

    bootstrap: str
    now_ms: int

    @property
    def moment(self) -> str:
        """Now, for the names of files."""
        return f"{datetime.fromtimestamp(self.now_ms / 1000, UTC):%Y%m%dT%H%M%SZ}"


def change_of(body: Mapping[str, Any], circumstances: Circumstances) -> Change:
    """The change that a request asks for. Raises: ChangeRequestError."""
    make = KINDS.get(str(body.get("kind")))
    if make is None:
        raise ChangeRequestError(f"'kind' is one of {', '.join(KINDS)}")
    try:
        return make(body, circumstances)
    except (ValueError, OverflowError) as error:
        raise ChangeRequestError(str(error)) from None


def _reset_offsets(body: Mapping[str, Any], circumstances: Circumstances) -> Change:
    option, value = _text(body, "to"), _text(body, "value", default="", size_max=OFFSETS_TEXT_MAX)
    scopes = tuple(_texts(body, "scopes"))
    return ResetOffsets(
        group=_text(body, "group"),
        kind=kind_of_group(_text(body, "group_kind", default="consumer")),
        wanted=Wanted.parse(option, value, scopes, circumstances.now_ms),
        option=(option, "offsets.csv" if option == "from_file" else value),
        scopes=scopes,
        moment=circumstances.moment,
        bootstrap=circumstances.bootstrap,
    )


def _delete_group(body: Mapping[str, Any], circumstances: Circumstances) -> Change:
    return DeleteGroup(
        group=_text(body, "group"),
        kind=kind_of_group(_text(body, "group_kind", default="consumer")),
        bootstrap=circumstances.bootstrap,
    )


def _create_topic(body: Mapping[str, Any], circumstances: Circumstances) -> Change:
    config = _config(body)
    missing = [key for key, value in config.items() if value is None]
    if missing:
        raise ChangeRequestError(f"{missing[0]} has no value")
    return ApplyTopic(
        topic=_text(body, "topic"),
        is_new=True,
        bootstrap=circumstances.bootstrap,
        partitions=_number(body, "partitions", least=1),
        replicas=_number(body, "replicas", least=1),
        config=config,
    )


def _alter_topic(body: Mapping[str, Any], circumstances: Circumstances) -> Change:
    return ApplyTopic(
        topic=_text(body, "topic"),
        is_new=False,
        bootstrap=circumstances.bootstrap,
        partitions=_number(body, "partitions", least=1),
        replicas=_number(body, "replicas", least=1),
        config=_config(body),
        accepts_key_movement=body.get("accepts_key_movement") is True,
    )


def _delete_topic(body: Mapping[str, Any], circumstances: Circumstances) -> Change:
    return RemoveTopic(topic=_text(body, "topic"), bootstrap=circumstances.bootstrap)


def _delete_records(body: Mapping[str, Any], circumstances: Circumstances) -> Change:
    before: dict[int, int | None] = {}
    for key, value in _object(body, "before").items():
        if not key.isdecimal() or not (value is None or _is_number(value, 0)):
            raise ChangeRequestError("'before' has partitions with offsets, or null for all")
        before[int(key)] = value
    return RemoveRecords(
        topic=_text(body, "topic"), bootstrap=circumstances.bootstrap, before=before
    )


def _change_acl(*, is_removal: bool) -> Callable[[Mapping[str, Any], Circumstances], Change]:
    def make(body: Mapping[str, Any], circumstances: Circumstances) -> Change:
        principal = _text(body, "principal")
        binding = AclBinding(
            resource_type=_member(body, "resource_type", AclResourceType),
            resource_name=_text(body, "resource_name"),
            pattern_type=_member(body, "pattern", PatternType, default="literal"),
            principal=principal if ":" in principal else f"User:{principal}",
            host=_text(body, "host", default="*"),
            operation=_member(body, "operation", AclOperation),
            permission=_member(body, "permission", AclPermission, default="allow"),
        )
        bootstrap = circumstances.bootstrap
        return ChangeAcl(binding=binding, is_removal=is_removal, bootstrap=bootstrap)

    return make


def _change_quotas(body: Mapping[str, Any], circumstances: Circumstances) -> Change:
    parts: dict[str, str | None] = {}
    for key, value in _object(body, "entity").items():
        if key not in ("user", "client-id", "ip") or not isinstance(value, str | None):
            raise ChangeRequestError("'entity' has user, client-id or ip; null means the default")
        parts[key] = value
    quotas: dict[str, float | None] = {}
    for key, value in _object(body, "quotas").items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise ChangeRequestError(f"{key} is a number, or null to remove it")
        quotas[key] = value
    if not parts or not quotas:
        raise ChangeRequestError("name an entity, and at least one quota")
    entity = QuotaEntity.from_parts(parts)
    return ChangeQuotas(entity=entity, quotas=quotas, bootstrap=circumstances.bootstrap)


def _fence_producer(body: Mapping[str, Any], circumstances: Circumstances) -> Change:
    transactional_id = _text(body, "transactional_id")
    return FenceProducer(transactional_id=transactional_id, bootstrap=circumstances.bootstrap)


KINDS: Final[Mapping[str, Callable[[Mapping[str, Any], Circumstances], Change]]] = {
    "reset-offsets": _reset_offsets,
    "delete-group": _delete_group,
    "create-topic": _create_topic,
    "alter-topic": _alter_topic,
    "delete-topic": _delete_topic,
    "delete-records": _delete_records,
    "create-acl": _change_acl(is_removal=False),
    "delete-acl": _change_acl(is_removal=True),
    "change-quotas": _change_quotas,
    "fence-producer": _fence_producer,
}


def _text(
    body: Mapping[str, Any], name: str, *, default: str | None = None, size_max: int = _TEXT_MAX
) -> str:
    value = body.get(name, default)
    if not isinstance(value, str) or len(value) > size_max or (default is None and not value):
        raise ChangeRequestError(f"'{name}' must be text")
    return value


def _texts(body: Mapping[str, Any], name: str) -> list[str]:
    value = body.get(name, [])
    if not isinstance(value, list) or len(value) > _ITEMS_MAX:
        raise ChangeRequestError(f"'{name}' must be a list")
    if not all(isinstance(one, str) for one in value):
        raise ChangeRequestError(f"'{name}' must be a list of texts")
    return value


def _object(body: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = body.get(name, {})
    if not isinstance(value, dict) or len(value) > _ITEMS_MAX:
        raise ChangeRequestError(f"'{name}' must be an object")
    return value


def _number(body: Mapping[str, Any], name: str, *, least: int) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    if not _is_number(value, least):
        raise ChangeRequestError(f"'{name}' must be a number of {least} or more")
    return int(value)


def _is_number(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 2**63


def _member(
    body: Mapping[str, Any], name: str, enumeration: type[EnumT], *, default: str | None = None
) -> EnumT:
    word = _text(body, name, default=default)
    try:
        return member_of(enumeration, word)
    except KeyError:
        raise ChangeRequestError(f"{word!r} is no {name.replace('_', ' ')}") from None


def _config(body: Mapping[str, Any]) -> dict[str, str | None]:
    """Settings as they are sent to brokers: times and sizes may be given with units."""
    config: dict[str, str | None] = {}
    for key, value in _object(body, "config").items():
        if value is not None and not isinstance(value, str):
            raise ChangeRequestError(f"{key} must be text, or null for the default")
        config[key] = None if value is None else without_unit(key, value.strip())
    return config

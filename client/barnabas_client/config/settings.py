"""The settings of the client as fields of frozen dataclasses, checked by the shared engine.

The rows themselves are in `client_settings`, `producer_settings`, `consumer_settings` and
`admin_settings`; this module holds none. Names, types, defaults and ranges are those of Kafka's
Java client unless a row says otherwise; its dotted names are understood too. What a row is and does
is `barnabas_protocol.settings`' affair; its kind follows from the annotation of the field.

Invariants: an object of settings that exists is valid; every refusal names the setting, what was
given, what is possible, and never a secret.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from barnabas_client.errors import ConfigurationError
from barnabas_protocol.settings.kinds import (
    BOOLEAN,
    INT_MAX,
    INTEGER,
    LIST,
    LONG_MAX,
    OBJECT,
    TEXT,
    Kind,
    any_of,
)
from barnabas_protocol.settings.setting import (
    GivenError,
    Setting,
    SettingError,
    first_missing,
    named,
)

__all__ = ["INT_MAX", "LONG_MAX", "accept_all", "build", "setting", "settings_of"]

SettingsT = TypeVar("SettingsT")

# A number or a truth is recognised before text, which would accept its spelling.
_KINDS: Final = (INTEGER, BOOLEAN, LIST, TEXT, OBJECT)


def setting(
    default: Any = dataclasses.MISSING,
    *,
    why: str,
    minimum: int | None = None,
    maximum: int | None = None,
    choices: tuple[str, ...] = (),
    unit: str = "",
    secret: bool = False,
    check: Callable[[Any], str | None] | None = None,
) -> Any:
    """Declare a field of a settings class; without a default it must be given."""
    row = Setting(
        name="",
        kind=OBJECT,
        default=None if default is dataclasses.MISSING else default,
        why=why,
        minimum=minimum,
        maximum=maximum,
        choices=choices,
        unit=unit,
        is_secret=secret,
        is_required=default is dataclasses.MISSING,
        check=check,
    )
    return dataclasses.field(default=default, metadata={"row": row}, repr=not secret)


def _kind(annotation: Any) -> Kind:
    if annotation is bool:
        return BOOLEAN
    if annotation is int:
        return INTEGER
    if annotation is str:
        return TEXT
    return LIST if typing.get_origin(annotation) is Sequence else OBJECT


_settings_by_role: dict[type[Any], Mapping[str, Setting]] = {}


def settings_of(kind: type[Any]) -> Mapping[str, Setting]:
    """The settings of a role, by name, inherited ones first."""
    known = _settings_by_role.get(kind)
    if known is None:
        known = _settings_by_role[kind] = types.MappingProxyType(_read_rows(kind))
    return known


def _read_rows(kind: type[Any]) -> dict[str, Setting]:
    hints = typing.get_type_hints(kind)
    found = {}
    for field in dataclasses.fields(kind):
        annotation = hints[field.name]
        union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
        members = typing.get_args(annotation) if union else (annotation,)
        kinds = {_kind(member) for member in members if member is not type(None)}
        if LIST in kinds:  # text is how a list is written down
            kinds.discard(TEXT)
        row: Setting = field.metadata["row"]
        found[field.name] = replace(
            row,
            name=field.name,
            kind=any_of(*sorted(kinds, key=_KINDS.index)),
            is_nullable=type(None) in members or annotation is Any,
        )
    return found


def accept_all(settings: Any) -> None:
    """Replace every value of a frozen settings object by its checked form.

    Raises: ConfigurationError naming the setting, what was given and what is possible.
    """
    for name, row in settings_of(type(settings)).items():
        given = getattr(settings, name)
        try:
            object.__setattr__(settings, name, row.accept(given))
        except SettingError as error:
            raise ConfigurationError(f"{name}={row.shown(given)}: {error.reason}") from None


def build(kind: type[SettingsT], values: Mapping[str, Any]) -> SettingsT:
    """Make settings from names as they were given, with underscores or with Kafka's dots.

    Raises: ConfigurationError if a name is unknown or given twice, one is missing, a value is
    wrong or two contradict each other.
    """
    rows = settings_of(kind).values()
    try:
        given = named(
            rows,
            values,
            spell=lambda name: name.replace(".", "_"),
            otherwise="see client-configuration.md for all names",
        )
    except GivenError as error:
        raise ConfigurationError(str(error)) from None
    missing = first_missing(rows, given)
    if missing is not None and missing.name not in given:
        raise ConfigurationError(f"{missing.name} is missing: {missing.why}")
    return kind(**given)

"""What a setting is: a row on a frozen dataclass, and how a given value becomes a checked one.

The rows themselves are in `client_settings`, `producer_settings`, `consumer_settings` and
`admin_settings`; this module holds none. Names, types, defaults and ranges are those of Kafka's
Java client unless a row says otherwise; its dotted names are understood too.

Invariants: an object of settings that exists is valid; every refusal names the setting, what was
given, what is possible, and never a secret.
"""

from __future__ import annotations

import dataclasses
import difflib
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from barnabas_client.errors import ConfigurationError

INT_MAX: Final = 2147483647
LONG_MAX: Final = 9223372036854775807

SettingsT = TypeVar("SettingsT")

_TRUTHS: Final = {"true": True, "false": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What is known of a setting besides its name, type and default."""

    why: str
    minimum: int | None = None
    maximum: int | None = None
    choices: tuple[str, ...] = ()
    unit: str = ""
    secret: bool = False
    check: Callable[[Any], str | None] | None = None


_WORDS: Final = {
    "int": "a whole number",
    "bool": "true or false",
    "list": "a list, or text with commas",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting of one role, as the checks and the reference need it."""

    name: str
    kinds: tuple[str, ...]
    is_nullable: bool
    default: Any
    is_required: bool
    row: Row

    @property
    def type_name(self) -> str:
        """What the reference prints: `int`, `bool`, `text`, `list` or `object`."""
        return " or ".join(self.kinds)

    @property
    def type_in_words(self) -> str:
        """What an error says is wanted."""
        return " or ".join(_WORDS.get(kind, kind) for kind in self.kinds)

    def accept(self, value: Any) -> Any:
        """The value in the setting's own type.

        Raises: ConfigurationError if the type or the range is wrong.
        """
        if value is None:
            if self.is_nullable:
                return None
            raise self._refusal(value, f"it must be {self.type_in_words}")
        accepted = self._typed(value)
        row = self.row
        if row.choices and isinstance(accepted, str):
            accepted = self._choice(accepted)
        if isinstance(accepted, int) and not isinstance(accepted, bool):
            if row.minimum is not None and accepted < row.minimum:
                raise self._refusal(value, f"the least is {row.minimum}")
            if row.maximum is not None and accepted > row.maximum:
                raise self._refusal(value, f"the most is {row.maximum}")
        if row.check is not None:
            complaint = row.check(accepted)
            if complaint is not None:
                raise self._refusal(value, complaint)
        return accepted

    def _typed(self, value: Any) -> Any:
        for kind in self.kinds:
            accepted = _CONVERSIONS[kind](value)
            if accepted is not None:
                return accepted
        raise self._refusal(value, f"it must be {self.type_in_words}")

    def _choice(self, text: str) -> str:
        folded = {choice.lower(): choice for choice in self.row.choices}
        known = folded.get(text.strip().lower())
        if known is None:
            raise self._refusal(text, f"it must be one of {', '.join(self.row.choices)}")
        return known

    def _refusal(self, value: Any, reason: str) -> ConfigurationError:
        shown = "[hidden]" if self.row.secret else repr(value)
        return ConfigurationError(f"{self.name}={shown}: {reason}")


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
    row = Row(
        why=why,
        minimum=minimum,
        maximum=maximum,
        choices=choices,
        unit=unit,
        secret=secret,
        check=check,
    )
    return dataclasses.field(default=default, metadata={"row": row}, repr=not secret)


def _integer(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        try:
            return int(value.strip())
        except ValueError:
            return None
    return None


def _truth(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    return _TRUTHS.get(value.strip().lower()) if isinstance(value, str) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None  # a password may end in a space


def _list(value: Any) -> tuple[Any, ...] | None:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return tuple(value) if isinstance(value, Sequence) else None


def _object(value: Any) -> Any:
    return value


_CONVERSIONS: Final[dict[str, Callable[[Any], Any]]] = {
    "int": _integer,
    "bool": _truth,
    "text": _text,
    "list": _list,
    "object": _object,
}


def _kind(annotation: Any) -> str:
    origin = typing.get_origin(annotation)
    if annotation is bool:
        return "bool"
    if annotation is int:
        return "int"
    if annotation is str:
        return "text"
    return "list" if origin is Sequence else "object"


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
        kinds = dict.fromkeys(_kind(member) for member in members if member is not type(None))
        if "list" in kinds:  # text is how a list is written down
            kinds.pop("text", None)
        # A number or a truth is recognised before text, which would accept its spelling.
        order = sorted(kinds, key=("int", "bool", "list", "text", "object").index)
        found[field.name] = Setting(
            name=field.name,
            kinds=tuple(order),
            is_nullable=type(None) in members or annotation is Any,
            default=field.default,
            is_required=field.default is dataclasses.MISSING,
            row=field.metadata["row"],
        )
    return found


def accept_all(settings: Any) -> None:
    """Replace every value of a frozen settings object by its checked form."""
    for name, known in settings_of(type(settings)).items():
        object.__setattr__(settings, name, known.accept(getattr(settings, name)))


def build(kind: type[SettingsT], values: Mapping[str, Any]) -> SettingsT:
    """Make settings from names as they were given, with underscores or with Kafka's dots.

    Raises: ConfigurationError if a name is unknown or given twice, one is missing, a value is
    wrong or two contradict each other.
    """
    known = settings_of(kind)
    given: dict[str, Any] = {}
    for spelled, value in values.items():
        name = spelled.replace(".", "_")
        if name not in known:
            raise ConfigurationError(unknown_setting(spelled, known))
        if name in given:
            raise ConfigurationError(f"{name} is given twice")
        given[name] = value
    missing = [name for name, row in known.items() if row.is_required and name not in given]
    if missing:
        raise ConfigurationError(f"{missing[0]} is missing: {known[missing[0]].row.why}")
    return kind(**given)


def unknown_setting(name: str, known: Mapping[str, object]) -> str:
    """What an error says of a name that is in no row: the nearest that is."""
    nearest = difflib.get_close_matches(name.replace(".", "_").lower(), known, 1, 0.6)
    hint = f"did you mean {nearest[0]}?" if nearest else "see client-configuration.md for all names"
    return f"unknown setting {name}: {hint}"

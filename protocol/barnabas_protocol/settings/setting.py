"""A setting: one row of a table, and what it does with a given value.

Rows are declared by their owners; this module holds none. A row knows all that an error and the
reference page say of it. How an error is put is its owner's affair: Kafka's tools expect Kafka's
sentences of a broker, a job names its option with two dashes.

Invariants: a value that was accepted is of the row's kind and within its range; no error shows a
secret.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeVar

from barnabas_protocol.settings.kinds import INT_MAX, LONG_MAX, Kind
from barnabas_protocol.settings.suggestions import did_you_mean, unknown_name

HIDDEN: Final = "[hidden]"
_UNBOUNDED: Final = (None, INT_MAX, LONG_MAX)
RowT = TypeVar("RowT", bound="Setting")


class Rule(Enum):
    """What a value broke."""

    KIND = "kind"
    MINIMUM = "minimum"
    MAXIMUM = "maximum"
    CHOICES = "choices"
    CHECK = "check"


class SettingError(ValueError):
    """A value that a setting cannot have: the rule that it broke, and what is possible instead."""

    def __init__(self, setting: Setting, value: Any, rule: Rule, reason: str) -> None:
        """`value` is what was given, or what was made of it; of a list, the item that is wrong."""
        super().__init__(reason)
        self.setting = setting
        self.value = value
        self.rule = rule
        self.reason = reason


class GivenError(ValueError):
    """Names that were given and are wrong as a whole: unknown, repeated or missing."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One row. `default` is as somebody would give it; None stands for "not set"."""

    name: str
    kind: Kind
    default: Any
    why: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    check: Callable[[Any], str | None] | None = None  # returns a complaint about a value
    unit: str = ""
    is_required: bool = False
    is_nullable: bool = False
    is_secret: bool = False
    folds_case: bool = True  # whether choices may be given in any case

    def accept(self, given: Any) -> Any:
        """The value that was given, in the row's kind. Raises: SettingError."""
        if given is None and self.is_nullable:
            return None
        try:
            value = self.kind.read(given)
        except ValueError as error:
            reason = str(error) or f"it must be {self.kind.words}"
            raise SettingError(self, given, Rule.KIND, reason) from None
        if self.choices:
            value = self._choice(value)
        if self.minimum is not None or self.maximum is not None:
            self._check_range(value)
        if self.check is not None:
            complaint = self.check(value)
            if complaint is not None:
                raise SettingError(self, value, Rule.CHECK, complaint)
        return value

    def _choice(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(self._one_choice(item) for item in value)
        return self._one_choice(value) if isinstance(value, str) else value

    def _one_choice(self, text: str) -> str:
        if text in self.choices:
            return text
        folded = {choice.lower(): choice for choice in self.choices} if self.folds_case else {}
        known = folded.get(text.strip().lower())
        if known is None:
            reason = f"it must be {_either(self.choices)}{did_you_mean(text, self.choices)}"
            raise SettingError(self, text, Rule.CHOICES, reason)
        return known

    def _check_range(self, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return
        if self.minimum is not None and value < self.minimum:
            reason = f"the least is {number_text(self.minimum)}"
            raise SettingError(self, value, Rule.MINIMUM, reason)
        if self.maximum is not None and value > self.maximum:
            reason = f"the most is {number_text(self.maximum)}"
            raise SettingError(self, value, Rule.MAXIMUM, reason)

    def shown(self, value: Any) -> str:
        """The value in an error; a secret is not."""
        if self.is_secret:
            return HIDDEN
        text = str(value) if isinstance(value, str) else repr(value)
        text = text if len(text) <= 80 else f"{text[:77]}..."
        return repr(text) if isinstance(value, str) else text

    @property
    def range_text(self) -> str:
        """The values that are possible, for people; empty where all of the kind are."""
        if self.choices:
            return ", ".join(self.choices)
        least, most = self.minimum, self.maximum
        if least is None:
            return "" if most is None else f"at most {number_text(most)}"
        if most in _UNBOUNDED:
            return f"at least {number_text(least)}"
        return f"{number_text(least)} to {number_text(most)}"


def number_text(value: float) -> str:
    """A bound as it would be written."""
    return str(int(value)) if value == int(value) else str(value)


def _either(choices: tuple[str, ...]) -> str:
    return " or ".join(choices) if len(choices) < 3 else f"one of {', '.join(choices)}"


def by_name(*tables: Iterable[RowT]) -> dict[str, RowT]:
    """The rows of several tables, by their names."""
    return {row.name: row for table in tables for row in table}


def named(
    rows: Iterable[Setting],
    given: Mapping[str, Any],
    *,
    spell: Callable[[str], str] = str,
    what: str = "setting",
    otherwise: str = "",
) -> dict[str, Any]:
    """What was given, by the names of the rows; `spell` makes a row's name of a spelling.

    Raises: GivenError for a name that no row has, naming the nearest one, or that is given twice.
    """
    known = {row.name for row in rows}
    found: dict[str, Any] = {}
    for spelled, value in given.items():
        name = spell(str(spelled))
        if name not in known:
            raise GivenError(unknown_name(what, str(spelled), known, otherwise))
        if name in found:
            raise GivenError(f"{name} is given twice")
        found[name] = value
    return found


def first_missing(rows: Iterable[RowT], given: Mapping[str, Any]) -> RowT | None:
    """The first row that must be given and is not."""
    return next((row for row in rows if row.is_required and given.get(row.name) is None), None)

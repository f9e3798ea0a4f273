"""A setting of the broker: one row of a table, with what Kafka's tools want to know of it.

The rows themselves are in `broker_settings`, `ignored_settings` and `topic_settings`; this module
holds no setting. Kinds, ranges and choices are checked by the engine of
`barnabas_protocol.settings`. Keys, types, defaults and ranges are those of Apache Kafka 4.1 unless
a row says otherwise, and the texts of refusals match Kafka's, because its tools print them.

Invariants: a row's default is text in the form that DescribeConfigs reports, and is itself valid.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from barnabas_protocol.settings import kinds
from barnabas_protocol.settings.kinds import INT, INT_MAX, LONG, LONG_MAX, SHORT, Kind, split_list
from barnabas_protocol.settings.setting import HIDDEN, Rule, SettingError, number_text
from barnabas_protocol.settings.setting import Setting as SharedSetting

__all__ = ["INT", "INT_MAX", "LONG", "LONG_MAX", "SHORT"]

Value = bool | int | float | str | tuple[str, ...] | None


class ConfigError(Exception):
    """A setting that cannot be accepted; the message is meant for the person who wrote it."""


class ConfigType(IntEnum):
    """The type of a setting, by the number that DescribeConfigs carries (KIP-569)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


def _stripped(text: str) -> str:
    return text.strip()


def _list(text: str) -> tuple[str, ...]:
    return split_list(text.strip())


# Their names are those of ConfigType.
BOOLEAN: Final = Kind("boolean", kinds.BOOLEAN.words, kinds.BOOLEAN.read)
STRING: Final = Kind("string", "text", _stripped)
DOUBLE: Final = Kind("double", kinds.NUMBER.words, kinds.NUMBER.read)
LIST: Final = Kind("list", "text with commas", _list)
CLASS: Final = Kind("class", "the name of a class", _stripped)
PASSWORD: Final = Kind("password", "text", kinds.TEXT.read)

# How a broker setting may change while the broker runs.
READ_ONLY: Final = "read-only"
PER_BROKER: Final = "per-broker"
CLUSTER_WIDE: Final = "cluster-wide"

# What the broker does with a setting.
USED: Final = "used"
IGNORED: Final = "ignored"  # known to Kafka's administrators, has no effect here
DEFAULT_ONLY: Final = "default only"  # ignoring it could harm, so any other value is refused


# A setting without an effect: key, kind, default, minimum, maximum, how it may change.
IgnoredRow = tuple[str, Kind, str | None, float | None, float | None, str]


@dataclass(frozen=True, slots=True)
class BrokerSetting(SharedSetting):
    """One row of a settings table."""

    folds_case: bool = False
    update: str = READ_ONLY
    support: str = USED
    # Broker keys that a topic setting falls back to, first one set wins, with the factor that turns
    # the broker's unit into the topic's.
    broker_keys: tuple[tuple[str, int], ...] = ()

    @property
    def type(self) -> ConfigType:
        """The type as DescribeConfigs has it."""
        return ConfigType[self.kind.name.upper()]

    @property
    def attribute(self) -> str:
        """The name of the parsed value in a configuration object."""
        return self.name.replace(".", "_").replace("-", "_")

    @property
    def is_sensitive(self) -> bool:
        """Whether the value must never leave the broker."""
        return self.kind is PASSWORD

    @property
    def is_dynamic(self) -> bool:
        """Whether the value may change while the broker runs."""
        return self.update != READ_ONLY

    def parse(self, text: str | None) -> Value:
        """The value that the text stands for.

        Raises: ConfigError if the text is not of the setting's type or outside its range.
        """
        if text is None:
            return None
        try:
            value: Value = self.accept(text)
        except SettingError as error:
            shown = HIDDEN if self.is_sensitive else _shown(error)
            reason = _REASONS[error.rule](self, error)
            raise ConfigError(
                f"Invalid value {shown} for configuration {self.name}: {reason}"
            ) from None
        return value

    def text_of(self, text: str | None) -> str | None:
        """The text in the form that DescribeConfigs reports: trimmed, booleans in lower case."""
        return None if text is None else value_text(self.kind.read(text))


def _shown(error: SettingError) -> str:
    value = error.value
    return f"[{', '.join(value)}]" if isinstance(value, tuple) else value_text(value) or ""


def _kind_reason(row: BrokerSetting, _: SettingError) -> str:
    if row.kind is BOOLEAN:
        return "Expected value to be either true or false"
    return f"Not a number of type {row.type.name}"


_Reason = Callable[[BrokerSetting, SettingError], str]

# In Kafka's words.
_REASONS: Final[dict[Rule, _Reason]] = {
    Rule.KIND: _kind_reason,
    Rule.MINIMUM: lambda row, _: f"Value must be at least {number_text(row.minimum or 0)}",
    Rule.MAXIMUM: lambda row, _: f"Value must be no more than {number_text(row.maximum or 0)}",
    Rule.CHOICES: lambda row, _: f"String must be one of: {', '.join(row.choices)}",
    Rule.CHECK: lambda row, error: error.reason.replace("{key}", row.name),
}


def value_text(value: Value) -> str | None:
    """The text of a value in the form that DescribeConfigs reports."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return _java_double(value) if isinstance(value, float) else str(value)


def _java_double(value: float) -> str:
    """As Java writes it: with an exponent from ten million on and below a thousandth."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    from decimal import Decimal  # rarely wanted, and slow to load

    decimal = Decimal(repr(value))
    digits, exponent = decimal.as_tuple().digits, decimal.adjusted()
    significant = "".join(map(str, digits)).rstrip("0")
    sign = "-" if value < 0 else ""
    return f"{sign}{significant[0]}.{significant[1:] or '0'}E{exponent}"

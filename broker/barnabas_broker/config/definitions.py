"""What a setting is: one row of a table, and how its text becomes a value.

The rows themselves are in `broker_settings`, `ignored_settings` and `topic_settings`; this module
holds no setting. Keys, types, defaults and ranges are those of Apache Kafka 4.1 unless a row says
otherwise, and the texts of refusals match Kafka's, because its tools print them.

Invariants: a row's default is text in the form that DescribeConfigs reports, and is itself valid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Final, NamedTuple

LONG_MAX: Final = 9223372036854775807
INT_MAX: Final = 2147483647

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


BOOLEAN: Final = ConfigType.BOOLEAN
STRING: Final = ConfigType.STRING
INT: Final = ConfigType.INT
SHORT: Final = ConfigType.SHORT
LONG: Final = ConfigType.LONG
DOUBLE: Final = ConfigType.DOUBLE
LIST: Final = ConfigType.LIST
CLASS: Final = ConfigType.CLASS
PASSWORD: Final = ConfigType.PASSWORD

# How a broker setting may change while the broker runs.
READ_ONLY: Final = "read-only"
PER_BROKER: Final = "per-broker"
CLUSTER_WIDE: Final = "cluster-wide"

# What the broker does with a setting.
USED: Final = "used"
IGNORED: Final = "ignored"  # known to Kafka's administrators, has no effect here
DEFAULT_ONLY: Final = "default only"  # ignoring it could harm, so any other value is refused


# A setting without an effect: key, type, default, minimum, maximum, how it may change.
IgnoredRow = tuple[str, ConfigType, str | None, float | None, float | None, str]


class Setting(NamedTuple):
    """One row of a settings table."""

    key: str
    type: ConfigType
    default: str | None
    why: str
    minimum: float | None = None
    maximum: float | None = None
    allowed: tuple[str, ...] = ()
    update: str = READ_ONLY
    support: str = USED
    # Broker keys that a topic setting falls back to, first one set wins, with the factor that turns
    # the broker's unit into the topic's.
    broker_keys: tuple[tuple[str, int], ...] = ()
    check: Callable[[str], str | None] | None = None

    @property
    def attribute(self) -> str:
        """The name of the parsed value in a configuration object."""
        return self.key.replace(".", "_").replace("-", "_")

    @property
    def is_sensitive(self) -> bool:
        """Whether the value must never leave the broker."""
        return self.type is PASSWORD

    @property
    def is_dynamic(self) -> bool:
        """Whether the value may change while the broker runs."""
        return self.update != READ_ONLY

    @property
    def unit(self) -> str:
        """The unit of the value, taken from the key, or an empty string."""
        if self.type not in (INT, SHORT, LONG):
            return ""
        words = self.key.split(".")
        for word, unit in _UNITS.items():
            if word in words:
                return unit
        return ""

    @property
    def range_text(self) -> str:
        """The valid values, for people."""
        if self.allowed:
            return ", ".join(self.allowed)
        if self.minimum is None:
            return ""
        if self.maximum is None:
            return f"at least {_number(self.minimum)}"
        return f"{_number(self.minimum)} to {_number(self.maximum)}"

    def parse(self, text: str | None) -> Value:
        """The value that the text stands for.

        Raises: ConfigError if the text is not of the setting's type or outside its range.
        """
        if text is None:
            return None
        value = self._typed(text)
        self._check_range(value, text)
        return value

    def _typed(self, text: str) -> Value:
        stripped = text.strip()
        kind = self.type
        if kind is BOOLEAN:
            lowered = stripped.lower()
            if lowered not in ("true", "false"):
                raise self._refusal(text, "Expected value to be either true or false")
            return lowered == "true"
        if kind in _INTEGER_LIMITS:
            low, high = _INTEGER_LIMITS[kind]
            number = _integer(stripped)
            if number is None or not low <= number <= high:
                raise self._refusal(text, f"Not a number of type {kind.name}")
            return number
        if kind is DOUBLE:
            try:
                return float(stripped)
            except ValueError:
                raise self._refusal(text, "Not a number of type DOUBLE") from None
        if kind is LIST:
            return split_list(stripped)
        return stripped if kind is not PASSWORD else text

    def _check_range(self, value: Value, text: str) -> None:
        shown = f"[{', '.join(value)}]" if isinstance(value, tuple) else value_text(value) or ""
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            if self.minimum is not None and value < self.minimum:
                raise self._refusal(shown, f"Value must be at least {_number(self.minimum)}")
            if self.maximum is not None and value > self.maximum:
                raise self._refusal(shown, f"Value must be no more than {_number(self.maximum)}")
        if self.allowed:
            for item in value if isinstance(value, tuple) else (value,):
                if item not in self.allowed:
                    choices = ", ".join(self.allowed)
                    raise self._refusal(str(item), f"String must be one of: {choices}")
        if self.check is not None:
            complaint = self.check(text)
            if complaint is not None:
                raise self._refusal(shown, complaint.replace("{key}", self.key))

    def _refusal(self, text: str, reason: str) -> ConfigError:
        shown = "[hidden]" if self.is_sensitive else text
        return ConfigError(f"Invalid value {shown} for configuration {self.key}: {reason}")

    def text_of(self, text: str | None) -> str | None:
        """The text in the form that DescribeConfigs reports: trimmed, booleans in lower case."""
        if text is None:
            return None
        return value_text(self._typed(text))


_INTEGER_LIMITS: Final[dict[ConfigType, tuple[int, int]]] = {
    SHORT: (-(1 << 15), (1 << 15) - 1),
    INT: (-(1 << 31), INT_MAX),
    LONG: (-(1 << 63), LONG_MAX),
}

_UNITS: Final = {
    "ms": "ms",
    "minutes": "minutes",
    "hours": "hours",
    "seconds": "seconds",
    "bytes": "bytes",
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
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    from decimal import Decimal  # rarely wanted, and slow to load

    decimal = Decimal(repr(value))
    digits, exponent = decimal.as_tuple().digits, decimal.adjusted()
    significant = "".join(map(str, digits)).rstrip("0")
    sign = "-" if value < 0 else ""
    return f"{sign}{significant[0]}.{significant[1:] or '0'}E{exponent}"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)


def _integer(text: str) -> int | None:
    digits = text[1:] if text[:1] in ("-", "+") else text
    return int(text) if digits.isascii() and digits.isdigit() else None


def split_list(text: str) -> tuple[str, ...]:
    """The items of a comma-separated list; an empty text is an empty list."""
    return tuple(item.strip() for item in text.split(",")) if text else ()


def by_key(*tables: Iterable[Setting]) -> dict[str, Setting]:
    """The rows of several tables by key."""
    return {setting.key: setting for table in tables for setting in table}


def unknown_key_message(key: str, known: Iterable[str]) -> str:
    """Says that a key is unknown and names the nearest one that is not (BOOT-10)."""
    from difflib import get_close_matches  # only wanted when the start fails anyway

    nearest = get_close_matches(key, list(known), n=1, cutoff=0.5)
    return f"unknown setting {key}" + (f"; did you mean {nearest[0]}?" if nearest else "")

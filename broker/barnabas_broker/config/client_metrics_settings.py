"""The settings of a subscription to metrics of clients (KIP-714): rows, and their check (TEL-1).

A subscription names metrics by their prefixes, says how often they are pushed, and which clients it
is for: each pattern names an attribute of clients and an expression for the whole of its value. RE2
matches them, whatever is given, in time that is proportional to the text.

Invariant: what is accepted is small, as each client is matched against every subscription.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from barnabas_broker.config.bounded_patterns import compile_bounded
from barnabas_broker.config.definitions import INT, LIST, BrokerSetting, ConfigError
from barnabas_protocol.settings.setting import by_name

METRICS: Final = "metrics"
INTERVAL_MS: Final = "interval.ms"
MATCH: Final = "match"
ALL_METRICS: Final = "*"
INTERVAL_MS_DEFAULT: Final = 5 * 60 * 1000
INTERVAL_MS_MIN: Final = 100
INTERVAL_MS_MAX: Final = 60 * 60 * 1000
VALUE_CHARS_MAX: Final = 8 * 1024
"""Of `metrics` and of `match`; Kafka lets them be as long as a record."""
PROGRAM_BYTES_MAX: Final = 1 << 18
PATTERNS_KEPT: Final = 1024

CLIENT_INSTANCE_ID: Final = "client_instance_id"
CLIENT_ID: Final = "client_id"
CLIENT_SOFTWARE_NAME: Final = "client_software_name"
CLIENT_SOFTWARE_VERSION: Final = "client_software_version"
CLIENT_SOURCE_ADDRESS: Final = "client_source_address"
CLIENT_SOURCE_PORT: Final = "client_source_port"
ATTRIBUTES: Final = frozenset(
    (
        CLIENT_INSTANCE_ID,
        CLIENT_ID,
        CLIENT_SOFTWARE_NAME,
        CLIENT_SOFTWARE_VERSION,
        CLIENT_SOURCE_ADDRESS,
        CLIENT_SOURCE_PORT,
    )
)

CLIENT_METRICS_SETTINGS: Final = (
    BrokerSetting(METRICS, LIST, "", "Prefixes of the metrics to be pushed; * for all."),
    BrokerSetting(INTERVAL_MS, INT, str(INTERVAL_MS_DEFAULT), "Clients push metrics so often."),
    BrokerSetting(MATCH, LIST, "", "Which clients push: attributes and their expressions."),
)
BY_KEY: Final = by_name(CLIENT_METRICS_SETTINGS)


class InvalidSubscriptionError(ConfigError):
    """What Kafka refuses as a request and not as a setting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """The settings of one subscription in force; `match` has expressions by attribute."""

    metrics: frozenset[str]
    interval_ms: int
    match: Mapping[str, Any]

    def is_for(self, attributes: Mapping[str, str]) -> bool:
        """Whether each expression matches the whole of what the client says of itself."""
        return all(
            name in attributes and expression.fullmatch(attributes[name]) is not None
            for name, expression in self.match.items()
        )


def parse_subscription(overrides: Mapping[str, str]) -> Subscription:
    """The subscription that these overrides make (CFG-5).

    Raises: ConfigError with the text that Kafka's tools print.
    """
    for key, text in overrides.items():
        if key not in BY_KEY:
            raise InvalidSubscriptionError(f"Unknown client metrics configuration: {key}")
        if len(text) > VALUE_CHARS_MAX:
            raise InvalidSubscriptionError(
                f"The value of {key} has {len(text)} characters, {VALUE_CHARS_MAX} at most"
            )
    values: dict[str, Any] = {
        row.name: row.parse(overrides.get(row.name, row.default)) for row in CLIENT_METRICS_SETTINGS
    }
    interval_ms = values[INTERVAL_MS]
    if not INTERVAL_MS_MIN <= interval_ms <= INTERVAL_MS_MAX:
        raise InvalidSubscriptionError(
            f"Invalid value {interval_ms} for {INTERVAL_MS}, interval must be between "
            f"{INTERVAL_MS_MIN} and {INTERVAL_MS_MAX} (1 hour)"
        )
    return Subscription(
        metrics=frozenset(values[METRICS]),
        interval_ms=interval_ms,
        match=_parse_match(values[MATCH]),
    )


def _parse_match(patterns: Sequence[str]) -> dict[str, Any]:
    """The expressions by attribute; of several for one attribute the last holds, as in Kafka."""
    match: dict[str, Any] = {}
    for pattern in patterns:
        name, _, expression = (part.strip() for part in pattern.partition("="))
        compiled = _compile(expression) if expression and "=" not in expression else None
        if name not in ATTRIBUTES or compiled is None:
            raise ConfigError(f"Illegal client matching pattern: {pattern}")
        match[name] = compiled
    return match


@lru_cache(maxsize=PATTERNS_KEPT)
def _compile(expression: str) -> Any:
    """The expression, None where RE2 does not take it."""
    try:
        return compile_bounded(expression, PROGRAM_BYTES_MAX)
    except ValueError:
        return None

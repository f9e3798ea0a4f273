"""The rows of the broker's settings for consumer groups (KIP-848).

Source: Kafka's `group.consumer.*`, and KIP-1263 for the assignment interval. Not here: those of a
single group (`group_settings.py`), which must lie within the bounds of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from barnabas_broker.config.definitions import (
    INT,
    LIST,
    STRING,
    BrokerSetting,
    ConfigError,
)

_S = BrokerSetting

ASSIGNORS: Final = ("uniform", "range")
MIGRATION_POLICIES: Final = ("disabled", "upgrade", "downgrade", "bidirectional")

_BOUNDED: Final = (
    ("session.timeout.ms", "45000", "45000", "60000", 1, "A silent member is removed after this."),
    ("heartbeat.interval.ms", "5000", "5000", "15000", 1, "Members send heartbeats so often."),
    ("assignment.interval.ms", "1000", "0", "15000", 0, "A target lasts so long at least."),
)


def _bounded_rows() -> tuple[BrokerSetting, ...]:
    rows: list[BrokerSetting] = []
    for key, default, lowest, highest, minimum, why in _BOUNDED:
        rows += (
            _S(f"group.consumer.{key}", INT, default, why, minimum),
            _S(f"group.consumer.min.{key}", INT, lowest, "The least that may be set.", minimum),
            _S(f"group.consumer.max.{key}", INT, highest, "The most that may be set.", minimum),
        )
    return tuple(rows)


CONSUMER_GROUP_SETTINGS: Final = (
    *_bounded_rows(),
    _S("group.consumer.max.size", INT, "2147483647", "Members of one consumer group.", 1),
    _S(
        "group.consumer.assignors",
        LIST,
        ",".join(ASSIGNORS),
        "How partitions are assigned; the first is taken where no member names one.",
    ),
    _S(
        "group.consumer.migration.policy",
        STRING,
        "bidirectional",
        "Which groups with members may change their protocol.",
        choices=MIGRATION_POLICIES,
        folds_case=True,
    ),
    _S(
        "group.consumer.regex.refresh.interval.ms",
        INT,
        "600000",
        "After this a pattern is matched again although no topic was created.",
        10_000,
    ),
)


def check_consumer_groups(values: Mapping[str, Any]) -> None:
    """Refuse bounds that no value lies in, and assignors that there are not.

    Raises: ConfigError.
    """
    for key, *_ in _BOUNDED:
        attribute = key.replace(".", "_")
        numbers = [values[f"group_consumer_{word}{attribute}"] for word in ("min_", "", "max_")]
        if numbers != sorted(numbers):
            raise ConfigError(
                f"group.consumer.{key} must lie between group.consumer.min.{key} and "
                f"group.consumer.max.{key}"
            )
    assignors = values["group_consumer_assignors"]
    unknown = [name for name in assignors if name not in ASSIGNORS]
    if unknown or not assignors:
        raise ConfigError(f"group.consumer.assignors must name some of {', '.join(ASSIGNORS)}")

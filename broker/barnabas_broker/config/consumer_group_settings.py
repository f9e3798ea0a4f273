"""The rows of the broker's settings for consumer groups (KIP-848).

Source: Kafka's `group.consumer.*`, and KIP-1263 for the assignment interval. Not here: those of a
single group (`group_settings.py`), which must lie within the bounds of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from barnabas_broker.config.bounded_settings import BoundedRow, bounded_rows, check_bounded
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
    BoundedRow(
        key="session.timeout.ms",
        default="45000",
        lowest="45000",
        highest="60000",
        why="A silent member is removed after this.",
    ),
    BoundedRow(
        key="heartbeat.interval.ms",
        default="5000",
        lowest="5000",
        highest="15000",
        why="Members send heartbeats so often.",
    ),
    BoundedRow(
        key="assignment.interval.ms",
        default="1000",
        lowest="0",
        highest="15000",
        why="A target lasts so long at least.",
        value_range=(0, None),
    ),
)

CONSUMER_GROUP_SETTINGS: Final = (
    *bounded_rows("consumer", _BOUNDED),
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
    check_bounded("consumer", _BOUNDED, values)
    assignors = values["group_consumer_assignors"]
    unknown = [name for name in assignors if name not in ASSIGNORS]
    if unknown or not assignors:
        raise ConfigError(f"group.consumer.assignors must name some of {', '.join(ASSIGNORS)}")

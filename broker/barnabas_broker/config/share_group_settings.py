"""The rows of the broker's settings for share groups (KIP-932).

Source: Kafka's `group.share.*` and `errors.deadletterqueue.*`; SHR-35, SHR-38. Not here: those of a
single group (`group_settings.py`), which must lie within the bounds of these; what holds for a
group (`share_group_configs.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from barnabas_broker.config.bounded_settings import BoundedRow, bounded_rows, check_bounded
from barnabas_broker.config.definitions import (
    BOOLEAN,
    CLUSTER_WIDE,
    INT,
    LIST,
    STRING,
    BrokerSetting,
    ConfigError,
)

ASSIGNORS: Final = ("simple",)

_BOUNDED: Final = (
    BoundedRow(
        key="session.timeout.ms",
        default="45000",
        lowest="45000",
        highest="60000",
        why="A silent member of a share group is removed after this.",
    ),
    BoundedRow(
        key="heartbeat.interval.ms",
        default="5000",
        lowest="5000",
        highest="15000",
        why="Members of share groups send heartbeats so often.",
    ),
    BoundedRow(
        key="assignment.interval.ms",
        default="1000",
        lowest="0",
        highest="15000",
        why="A target of a share group lasts so long at least.",
        value_range=(0, None),
    ),
    BoundedRow(
        key="record.lock.duration.ms",
        default="30000",
        lowest="15000",
        highest="60000",
        why="A delivered record is locked for so long.",
        value_range=(1_000, 3_600_000),
        lowest_range=(1_000, 30_000),
        highest_range=(30_000, 3_600_000),
    ),
    BoundedRow(
        key="delivery.count.limit",
        default="5",
        lowest="2",
        highest="10",
        why="A record is delivered so often at most.",
        value_range=(2, 10),
    ),
    BoundedRow(
        key="partition.max.record.locks",
        default="2000",
        lowest="100",
        highest="4000",
        why="So many records of a partition are locked at a time at most.",
        value_range=(100, 10_000),
    ),
)

SHARE_GROUP_SETTINGS: Final = (
    *bounded_rows("share", _BOUNDED),
    BrokerSetting("group.share.max.size", INT, "200", "Members of one share group.", 1, 1_000),
    BrokerSetting(
        "group.share.max.share.sessions",
        INT,
        "2000",
        "Members of share groups that fetch from one broker at a time.",
        1,
    ),
    BrokerSetting("group.share.assignors", LIST, "simple", "How partitions are assigned."),
    BrokerSetting(
        "group.share.initialize.retry.interval.ms",
        INT,
        "30000",
        "The state of a partition that could not be made is tried again after this.",
        1,
    ),
    BrokerSetting(
        "errors.deadletterqueue.auto.create.topics.enable",
        BOOLEAN,
        "false",
        "Whether a missing topic for dead letters of a share group is made.",
        update=CLUSTER_WIDE,
    ),
    BrokerSetting(
        "errors.deadletterqueue.topic.name.prefix",
        STRING,
        "dlq.",
        "How names of topics for dead letters begin; empty: however they like.",
        update=CLUSTER_WIDE,
    ),
)


def check_share_groups(values: Mapping[str, Any]) -> None:
    """Refuse bounds that no value lies in, and assignors that there are not.

    Raises: ConfigError.
    """
    check_bounded("share", _BOUNDED, values)
    if values["group_share_assignors"] != ASSIGNORS:
        raise ConfigError(f"group.share.assignors must be {', '.join(ASSIGNORS)}")

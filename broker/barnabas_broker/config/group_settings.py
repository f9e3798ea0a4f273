"""The settings of single groups: rows like those of topics, and their check.

Those of consumer and share groups take effect; those of streams groups, which this broker does not
serve, are kept and shown. Classic groups bring their timeouts with each member.
Source: Kafka 4.4's group configs, CFG-3, SHR-35, SHR-38. Invariant: a group without an override has
the broker's value.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from barnabas_broker.config.consumer_group_settings import CONSUMER_GROUP_SETTINGS
from barnabas_broker.config.definitions import BOOLEAN, INT, STRING, BrokerSetting, ConfigError
from barnabas_broker.config.ignored_settings import IGNORED_SETTINGS
from barnabas_broker.config.share_group_settings import SHARE_GROUP_SETTINGS
from barnabas_broker.config.topic import effective_value
from barnabas_protocol.settings.durations import parse_iso_duration_ms
from barnabas_protocol.settings.setting import by_name

BY_DURATION: Final = "by_duration:"
DEAD_LETTER_TOPIC: Final = "errors.deadletterqueue.topic.name"


def _row(key: str, default: str, why: str, minimum: int = 1) -> BrokerSetting:
    return BrokerSetting(key, INT, default, why, minimum, broker_keys=((f"group.{key}", 1),))


def _check_reset(text: str) -> str | None:
    if text in ("earliest", "latest"):
        return None
    if text.startswith(BY_DURATION):
        with suppress(ValueError):
            parse_iso_duration_ms(text.removeprefix(BY_DURATION))
            return None
    return (
        f"Invalid value `{text}` for configuration {{key}}. The value must be either 'earliest', "
        "'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
    )


GROUP_SETTINGS: Final = (
    _row("consumer.assignment.interval.ms", "1000", "A target lasts so long at least.", 0),
    _row("consumer.heartbeat.interval.ms", "5000", "Time between heartbeats of consumers."),
    _row("consumer.session.timeout.ms", "45000", "A silent consumer is removed after this."),
    BrokerSetting(
        "errors.deadletterqueue.copy.record.enable",
        BOOLEAN,
        "false",
        "Whether dead letters of a share group have the key and value of the record.",
    ),
    BrokerSetting(
        DEAD_LETTER_TOPIC,
        STRING,
        "",
        "The topic for dead letters of a share group; empty: there are none.",
    ),
    _row("share.assignment.interval.ms", "1000", "A target lasts so long at least.", 0),
    BrokerSetting(
        "share.auto.offset.reset",
        STRING,
        "latest",
        "Where a share group without a start begins.",
        check=_check_reset,
    ),
    _row("share.delivery.count.limit", "5", "How often a record is delivered at most.", 2),
    _row("share.heartbeat.interval.ms", "5000", "Time between heartbeats of share members."),
    BrokerSetting(
        "share.isolation.level",
        STRING,
        "read_uncommitted",
        "Whether records of undecided transactions are delivered.",
        choices=("read_committed", "read_uncommitted"),
    ),
    _row(
        "share.partition.max.record.locks",
        "2000",
        "How many records of a partition are locked at a time at most.",
        100,
    ),
    _row("share.record.lock.duration.ms", "30000", "How long a delivered record is locked.", 1000),
    BrokerSetting(
        "share.renew.acknowledge.enable",
        BOOLEAN,
        "true",
        "Whether members may prolong the locks of records.",
    ),
    _row("share.session.timeout.ms", "45000", "A silent share member is removed after this."),
    _row("streams.heartbeat.interval.ms", "5000", "Time between heartbeats of streams members."),
    _row("streams.num.standby.replicas", "0", "Standby replicas of each streams task.", 0),
    _row("streams.session.timeout.ms", "45000", "A silent streams member is removed after this."),
)
BY_KEY: Final = by_name(GROUP_SETTINGS)

# Keys that the broker limits, with the words that its limits carry.
_LIMITED: Final = (
    "consumer.assignment.interval.ms",
    "consumer.heartbeat.interval.ms",
    "consumer.session.timeout.ms",
    "share.assignment.interval.ms",
    "share.delivery.count.limit",
    "share.heartbeat.interval.ms",
    "share.partition.max.record.locks",
    "share.record.lock.duration.ms",
    "share.session.timeout.ms",
    "streams.heartbeat.interval.ms",
    "streams.session.timeout.ms",
)
_BROKER: Final = by_name(CONSUMER_GROUP_SETTINGS, SHARE_GROUP_SETTINGS, IGNORED_SETTINGS)


def validate_group_config(overrides: Mapping[str, str], broker: Mapping[str, str]) -> None:
    """Check the overrides of one group, as they would be after the change (CFG-5).

    Raises: ConfigError with the text that Kafka's tools print.
    """
    for key in overrides:
        if key not in BY_KEY:
            raise ConfigError(f"Unknown group config name: {key}")
    values = {
        setting.name: effective_value(setting, broker, overrides) for setting in GROUP_SETTINGS
    }
    numbers = {key: value for key, value in values.items() if isinstance(value, int)}
    for key in _LIMITED:
        kind, _, rest = key.partition(".")
        for bound, is_broken, words in (
            ("min", int.__lt__, "greater"),
            ("max", int.__gt__, "less"),
        ):
            limit_key = f"group.{kind}.{bound}.{rest}"
            limit = _limit(limit_key, broker)
            if limit is not None and is_broken(numbers[key], limit):
                raise ConfigError(f"{key} must be {words} than or equal to {limit_key}")
    for kind in ("consumer", "share", "streams"):
        session, beat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if numbers[session] <= numbers[beat]:
            raise ConfigError(f"{session} must be greater than {beat}")
    if str(values[DEAD_LETTER_TOPIC]).startswith("__"):
        raise ConfigError(f"{DEAD_LETTER_TOPIC}: DLQ topic name must not start with '__'")


def _limit(key: str, broker: Mapping[str, str]) -> int | None:
    setting = _BROKER.get(key)
    if setting is None:
        return None
    limit = setting.parse(broker.get(key, setting.default))
    return limit if isinstance(limit, int) else None

"""A topic's settings: overrides over the broker's values over the defaults (CFG-1, CFG-2).

`LogConfig` is rebuilt from scratch at each change and replaced as a whole in the open logs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from barnabas_broker.config.definitions import (
    DEFAULT_ONLY,
    IGNORED,
    BrokerSetting,
    ConfigError,
    Value,
)
from barnabas_broker.config.topic_settings import BY_KEY, TOPIC_SETTINGS


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """What governs one topic's logs: one attribute for each topic setting that takes effect."""

    barnabas_flush_policy: str
    cleanup_policy: frozenset[str]
    compression_gzip_level: int
    compression_lz4_level: int
    compression_type: str
    compression_zstd_level: int
    delete_retention_ms: int
    errors_deadletterqueue_group_enable: bool
    file_delete_delay_ms: int
    flush_messages: int
    flush_ms: int
    follower_replication_throttled_replicas: tuple[str, ...]
    index_interval_bytes: int
    leader_replication_throttled_replicas: tuple[str, ...]
    max_compaction_lag_ms: int
    max_message_bytes: int
    message_timestamp_after_max_ms: int
    message_timestamp_before_max_ms: int
    message_timestamp_type: str
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    min_insync_replicas: int
    preallocate: bool
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    segment_jitter_ms: int
    segment_ms: int
    unclean_leader_election_enable: bool

    @staticmethod
    def build(broker: Mapping[str, str], overrides: Mapping[str, str]) -> LogConfig:
        """The settings of a topic.

        `broker` holds broker keys with the values in force, static and dynamic together, and may
        leave out what has its default. Raises: ConfigError for a value that is not valid.
        """
        values: dict[str, Any] = {
            setting.attribute: effective_value(setting, broker, overrides) for setting in _USED
        }
        values["cleanup_policy"] = frozenset(values["cleanup_policy"])
        return LogConfig(**values)

    @property
    def is_compacted(self) -> bool:
        """Whether the last record of each key outlives retention's deletions."""
        return "compact" in self.cleanup_policy

    @property
    def roll_ms(self) -> int:
        """The age at which an active segment is left.

        Only closed segments are compacted, so one that is to be compacted in time must be left in
        time.
        """
        if self.is_compacted and self.max_compaction_lag_ms > 0:
            return min(self.segment_ms, self.max_compaction_lag_ms)
        return self.segment_ms

    @property
    def deletes_old_segments(self) -> bool:
        """Whether segments are deleted by age and size."""
        return "delete" in self.cleanup_policy


_USED = tuple(
    setting for setting in TOPIC_SETTINGS if setting.support not in (IGNORED, DEFAULT_ONLY)
)


_NO_BROKER_VALUES: Mapping[str, str] = MappingProxyType({})


def effective_value(
    setting: BrokerSetting, broker: Mapping[str, str], overrides: Mapping[str, str]
) -> Value:
    """The value of one topic setting, from the first level that has one. Raises: ConfigError."""
    text = overrides.get(setting.name)
    if text is not None:
        return setting.parse(text)
    for key, factor in setting.broker_keys:
        text = broker.get(key)
        if text is not None:
            # Hours and minutes of -1 mean "no limit" just as milliseconds of -1 do.
            if factor != 1 and int(text) >= 0:
                return int(text) * factor
            return setting.parse(text)
    return setting.parse(setting.default)


def check_broker_value(key: str, text: str) -> None:
    """Check a value of the broker as the default of topics that it is, if it is one.

    What topics could not have would end every broker that builds a `LogConfig` from it.
    Raises: ConfigError with the key of the broker.
    """
    for setting in _USED:
        if any(key == broker_key for broker_key, _ in setting.broker_keys):
            effective_value(replace(setting, name=key), {key: text}, {})


def validate_topic_config(
    overrides: Mapping[str, str], broker: Mapping[str, str] = _NO_BROKER_VALUES
) -> None:
    """Check the overrides of one topic, as they would be after the change (TOP-5, CFG-5).

    Raises: ConfigError with the text that Kafka's tools print.
    """
    for key, text in overrides.items():
        setting = BY_KEY.get(key)
        if setting is None:
            raise ConfigError(f"Unknown topic config name: {key}")
        value = setting.parse(text)
        if setting.support == DEFAULT_ONLY and value not in (False, None):
            raise ConfigError(
                "Tiered Storage functionality is disabled in the broker. "
                "Topic cannot be configured with remote log storage."
            )
    lag_min = effective_value(BY_KEY["min.compaction.lag.ms"], broker, overrides)
    lag_max = effective_value(BY_KEY["max.compaction.lag.ms"], broker, overrides)
    if isinstance(lag_min, int) and isinstance(lag_max, int) and lag_min > lag_max:
        raise ConfigError(
            f"conflict topic config setting min.compaction.lag.ms ({lag_min}) > "
            f"max.compaction.lag.ms ({lag_max})"
        )

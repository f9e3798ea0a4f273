"""The values in force while the broker runs, where each comes from, and what DescribeConfigs tells.

Levels, highest first (CFG-1): topic override, dynamic for this broker, dynamic for all brokers,
static file, default. Nothing here reads or writes anything: the metadata log brings the dynamic
levels as whole sets, each replacing the one before (CFG-2, CFG-4).

Source: KIP-226 (dynamic broker settings), KIP-569 (type and documentation). A synonym list begins
with the first entry whose key is the one asked about; Kafka drops what stands before it, so a value
that only exists under another unit's key is reported as a default without synonyms.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from barnabas_broker.config import client_metrics_settings, group_settings, parse, topic_settings
from barnabas_broker.config.definitions import (
    CLUSTER_WIDE,
    PER_BROKER,
    BrokerSetting,
    ConfigError,
    Value,
    value_text,
)
from barnabas_broker.config.listener_properties import split_listener_key
from barnabas_broker.config.listeners import parse_connection_overrides
from barnabas_broker.config.tls_settings import TLS_BY_KEY
from barnabas_broker.config.topic import LogConfig, check_broker_value, effective_value

logger = logging.getLogger(__name__)


class ConfigSource(IntEnum):
    """Where a value comes from, by the number that DescribeConfigs carries."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Synonym(NamedTuple):
    """A place that has a value for a setting."""

    key: str
    value: str | None
    source: ConfigSource


class DescribedConfig(NamedTuple):
    """One setting as DescribeConfigs reports it; a sensitive value is None."""

    key: str
    value: str | None
    source: ConfigSource
    is_default: bool
    is_read_only: bool
    is_sensitive: bool
    synonyms: tuple[Synonym, ...]
    type: int
    documentation: str


# Keys that are one setting in several units; the first that is set wins.
_SAME_SETTING: Final = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
_SYNONYM_KEYS: Final[dict[str, tuple[str, ...]]] = {
    **{key: keys for keys in _SAME_SETTING for key in keys},
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
}

# Numbers of threads: a change may at most halve or double them (CFG-7).
_THREAD_KEYS: Final = frozenset(
    (
        "background.threads",
        "log.cleaner.threads",
        "num.io.threads",
        "num.network.threads",
        "num.recovery.threads.per.data.dir",
        "num.replica.fetchers",
    )
)

# So many different sets of topic settings are kept ready.
_LOG_CONFIGS_MAX: Final = 1000

Listener = Callable[[frozenset[str]], None]


class DynamicConfig:
    """The broker settings of one broker with all their levels."""

    __slots__ = ("_cluster", "_listeners", "_log_configs", "_own", "_static", "values")

    def __init__(self, static: Mapping[str, str]) -> None:
        self._static = dict(static)
        self._cluster: dict[str, str] = {}
        self._own: dict[str, str] = {}
        self._listeners: list[Listener] = []
        self._log_configs: dict[tuple[tuple[str, str], ...], LogConfig] = {}
        # Broker keys with the text in force; keys that have their default may be missing.
        self.values: Mapping[str, str] = dict(static)

    def subscribe(self, listener: Listener) -> None:
        """Call with the keys whose value in force has changed, after each change."""
        self._listeners.append(listener)

    def update(self, cluster_wide: Mapping[str, str], this_broker: Mapping[str, str]) -> None:
        """Replace both dynamic levels; a value that cannot be applied is left out (CFG-5)."""
        self._cluster = _applicable(cluster_wide)
        self._own = _applicable(this_broker)
        self._log_configs.clear()
        before, self.values = self.values, {**self._static, **self._cluster, **self._own}
        changed = frozenset(
            key
            for key in before.keys() | self.values.keys()
            if before.get(key) != self.values.get(key)
        )
        if changed:
            for listener in self._listeners:
                listener(changed)

    def values_with(self, this_broker: Mapping[str, str]) -> dict[str, str]:
        """The values that would be in force with other overrides of this broker."""
        return {**self._static, **self._cluster, **_applicable(this_broker)}

    def overruled(self, key: str) -> tuple[str, str] | None:
        """What this broker's configuration and what the cluster says, where they differ."""
        own, common = self._static.get(key), self._cluster.get(key)
        return None if own is None or common is None or own == common else (own, common)

    def value(self, key: str) -> Value:
        """The parsed value in force of a broker setting."""
        setting = parse.BY_KEY[key]
        return setting.parse(self.values.get(key, setting.default))

    def log_config(self, overrides: Mapping[str, str]) -> LogConfig:
        """The settings of a topic with these overrides; topics with the same ones share them."""
        key = tuple(sorted(overrides.items()))
        config = self._log_configs.get(key)
        if config is None:
            if len(self._log_configs) >= _LOG_CONFIGS_MAX:
                self._log_configs.clear()
            config = self._log_configs[key] = LogConfig.build(self.values, overrides)
        return config

    def describe_topic(
        self, overrides: Mapping[str, str], keys: Iterable[str] | None = None
    ) -> list[DescribedConfig]:
        """All settings of a topic, or those of the keys that exist, in the order of the keys."""
        return self._describe_resource(
            topic_settings.TOPIC_SETTINGS, ConfigSource.DYNAMIC_TOPIC, overrides, keys
        )

    def describe_broker(self, keys: Iterable[str] | None = None) -> list[DescribedConfig]:
        """All settings of this broker, or those of the keys that exist."""
        wanted = None if keys is None else frozenset(keys)
        rows = {**parse.BY_KEY, **self._rows_of_listeners()}
        return [
            self._describe_broker_setting(key, setting, self.values.get(key, setting.default))
            for key, setting in rows.items()
            if wanted is None or key in wanted
        ]

    def _rows_of_listeners(self) -> dict[str, BrokerSetting]:
        """The rows of what is given for single listeners, by the whole keys."""
        rows = {key: parse.row_of(key) for key in self.values if split_listener_key(key)}
        return {key: row for key, row in sorted(rows.items()) if row is not None}

    def describe_cluster_default(self, keys: Iterable[str] | None = None) -> list[DescribedConfig]:
        """The settings that are dynamically set for all brokers, and no others."""
        wanted = None if keys is None else frozenset(keys)
        described = []
        for key, value in sorted(self._cluster.items()):
            if wanted is not None and key not in wanted:
                continue
            row = parse.row_of(key)
            assert row is not None, "what has no row is not applicable"
            entry = self._describe_broker_setting(key, row, value)
            source = ConfigSource.DYNAMIC_DEFAULT_BROKER
            synonyms = tuple(item for item in entry.synonyms if item.source == source)
            described.append(entry._replace(source=source, synonyms=synonyms, is_default=False))
        return described

    def describe_group(
        self, overrides: Mapping[str, str], keys: Iterable[str] | None = None
    ) -> list[DescribedConfig]:
        """All settings of a group, or those of the keys that exist.

        The default is a synonym, too, of what no setting of the broker gives.
        """
        described = self._describe_resource(
            group_settings.GROUP_SETTINGS, ConfigSource.GROUP, overrides, keys
        )
        return [
            config if group_settings.BY_KEY[config.key].broker_keys else _with_default(config)
            for config in described
        ]

    def describe_client_metrics(
        self, overrides: Mapping[str, str], keys: Iterable[str] | None = None
    ) -> list[DescribedConfig]:
        """All settings of a subscription to clients' metrics; defaults have no synonyms (TEL-1)."""
        return self._describe_resource(
            client_metrics_settings.CLIENT_METRICS_SETTINGS,
            ConfigSource.CLIENT_METRICS,
            overrides,
            keys,
        )

    def _describe_resource(
        self,
        settings: Iterable[BrokerSetting],
        own_source: ConfigSource,
        overrides: Mapping[str, str],
        keys: Iterable[str] | None,
    ) -> list[DescribedConfig]:
        """Settings of what has its own: below an override stand the levels of the broker's."""
        wanted = None if keys is None else frozenset(keys)
        described = []
        for setting in settings:
            if wanted is not None and setting.name not in wanted:
                continue
            value = value_text(effective_value(setting, self.values, overrides))
            synonyms: list[Synonym] = []
            if setting.name in overrides:
                synonyms.append(Synonym(setting.name, value, own_source))
            if setting.broker_keys:
                first = setting.broker_keys[0][0]
                synonyms += self._broker_synonyms(first, parse.BY_KEY[first])
            source = synonyms[0].source if synonyms else ConfigSource.DEFAULT
            described.append(
                DescribedConfig(
                    setting.name,
                    value,
                    source,
                    source == ConfigSource.DEFAULT,
                    False,
                    setting.is_sensitive,
                    tuple(synonyms),
                    setting.type,
                    setting.why,
                )
            )
        return described

    def _describe_broker_setting(
        self, key: str, setting: BrokerSetting, text: str | None
    ) -> DescribedConfig:
        synonyms = self._broker_synonyms(key, setting)
        source = synonyms[0].source if synonyms else ConfigSource.DEFAULT
        return DescribedConfig(
            key,
            None if setting.is_sensitive else setting.text_of(text),
            source,
            source == ConfigSource.DEFAULT,
            not setting.is_dynamic,
            setting.is_sensitive,
            tuple(synonyms),
            setting.type,
            setting.why,
        )

    def _broker_synonyms(self, key: str, setting: BrokerSetting) -> list[Synonym]:
        split = split_listener_key(key)
        keys = _SYNONYM_KEYS.get(key, (key,) if split is None else (key, split.key))
        found: list[Synonym] = []
        for level, source in (
            (self._own, ConfigSource.DYNAMIC_BROKER),
            (self._cluster, ConfigSource.DYNAMIC_DEFAULT_BROKER),
            (self._static, ConfigSource.STATIC_BROKER),
        ):
            for name in keys:
                text = level.get(name)
                if text is not None:
                    found.append(Synonym(name, text, source))
        for name in keys:
            row = parse.BY_KEY.get(name)
            default = None if row is None else row.default
            if default is not None:
                found.append(Synonym(name, default, ConfigSource.DEFAULT))
        while found and found[0].key != key:
            del found[0]
        if setting.is_sensitive:
            found = [item._replace(value=None) for item in found]
        return found


def _with_default(config: DescribedConfig) -> DescribedConfig:
    """The description of a group's setting, with its default as the last synonym."""
    default = group_settings.BY_KEY[config.key].default
    last = Synonym(config.key, default, ConfigSource.DEFAULT)
    return config._replace(synonyms=(*config.synonyms, last))


def validate_broker_config(
    overrides: Mapping[str, str], *, per_broker: bool, values: Mapping[str, str]
) -> None:
    """Check the whole dynamic set of one broker, or of all brokers, as it would be (CFG-7).

    `values` are those in force. Raises: ConfigError.
    """
    for key, text in overrides.items():
        setting = parse.row_of(key)
        if setting is None:
            continue  # Kafka stores keys that it does not know: plug-ins read them
        parse.check_prefix(key)
        if not setting.is_dynamic or not _may_change_there(key):
            raise ConfigError(f"Cannot update these configs dynamically: Set({key})")
        if key.startswith("ssl.") or key in TLS_BY_KEY:
            raise ConfigError(
                "These security configs can be dynamically updated only per-listener using the "
                f"listener prefix: HashSet({key})"
            )
        if setting.update == PER_BROKER and not per_broker:
            raise ConfigError(
                "Cannot update these configs at default cluster level, broker id must be "
                f"specified: Set({key})"
            )
        value = setting.parse(text)
        _check_value(key, text)
        if key in _THREAD_KEYS and isinstance(value, int):
            _check_thread_count(setting, value, values)


def _may_change_there(key: str) -> bool:
    """Whether a key of a single listener may change while the broker runs: TLS and limits may.

    No class and no address is taken from a request (CVE-2023-25194, CVE-2025-27817).
    """
    split = split_listener_key(key)
    return split is None or split.key in TLS_BY_KEY or split.key in parse.LIMITS_OF_LISTENERS


def _check_value(key: str, text: str) -> None:
    """Check what a row cannot say of a value. Raises: ConfigError."""
    check_broker_value(key, text)
    if key == "max.connections.per.ip.overrides":
        parse_connection_overrides(text)


def _check_thread_count(setting: BrokerSetting, new: int, values: Mapping[str, str]) -> None:
    current = setting.parse(values.get(setting.name, setting.default))
    if not isinstance(current, int) or new == current:
        return
    prefix = f"Dynamic thread count update validation failed for {setting.name}={new}"
    if new <= 0:
        raise ConfigError(f"{prefix}, value should be at least 1")
    if new < current // 2:
        raise ConfigError(f"{prefix}, value should be at least half the current value {current}")
    if new > current * 2:
        raise ConfigError(
            f"{prefix}, value should not be greater than double the current value {current}"
        )


def _applicable(overrides: Mapping[str, str]) -> dict[str, str]:
    applied: dict[str, str] = {}
    for key, text in overrides.items():
        setting = parse.row_of(key)
        if setting is None or not _may_change_there(key):
            continue
        if setting.update not in (PER_BROKER, CLUSTER_WIDE):
            continue
        try:
            setting.parse(text)
            _check_value(key, text)
        except ConfigError as error:
            logger.warning("a dynamic setting is left as it was: %s", error)
            continue
        applied[key] = text
    return applied

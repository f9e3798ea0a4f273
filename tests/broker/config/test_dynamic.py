"""Values in force: levels, synonyms, and what DescribeConfigs tells."""

import pytest

from barnabas_broker.config.definitions import ConfigError, value_text
from barnabas_broker.config.dynamic import (
    ConfigSource,
    DescribedConfig,
    DynamicConfig,
    Synonym,
    validate_broker_config,
)


def described(config: DynamicConfig, overrides: dict[str, str], key: str) -> DescribedConfig:
    (entry,) = config.describe_topic(overrides, [key])
    return entry


def test_default_of_a_topic_has_the_brokers_default_as_its_synonym() -> None:
    """CFG-1: as `kafka-configs --describe --all` shows for a new topic."""
    entry = described(DynamicConfig({}), {}, "segment.bytes")
    assert entry.value == "1073741824"
    assert entry.source == ConfigSource.DEFAULT
    assert entry.is_default
    assert not entry.is_read_only
    assert entry.synonyms == (Synonym("log.segment.bytes", "1073741824", ConfigSource.DEFAULT),)


def test_value_under_another_units_key_has_no_synonyms() -> None:
    """Kafka's quirk: log.retention.hours is not what retention.ms falls back to by name."""
    entry = described(DynamicConfig({"log.retention.hours": "1"}), {}, "retention.ms")
    assert (entry.value, entry.source, entry.synonyms) == ("3600000", ConfigSource.DEFAULT, ())


def test_synonyms_list_all_levels_from_the_highest() -> None:
    """CFG-1."""
    config = DynamicConfig({"log.retention.ms": "4", "log.retention.hours": "1"})
    config.update({"log.retention.ms": "3"}, {"log.retention.ms": "2"})
    entry = described(config, {"retention.ms": "1"}, "retention.ms")
    assert (entry.value, entry.source) == ("1", ConfigSource.DYNAMIC_TOPIC)
    assert [(synonym.key, synonym.value, synonym.source) for synonym in entry.synonyms] == [
        ("retention.ms", "1", ConfigSource.DYNAMIC_TOPIC),
        ("log.retention.ms", "2", ConfigSource.DYNAMIC_BROKER),
        ("log.retention.ms", "3", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("log.retention.ms", "4", ConfigSource.STATIC_BROKER),
        ("log.retention.hours", "1", ConfigSource.STATIC_BROKER),
        ("log.retention.hours", "168", ConfigSource.DEFAULT),
    ]
    assert described(config, {}, "retention.ms").source == ConfigSource.DYNAMIC_BROKER


def test_whole_topic_is_described_in_the_order_of_the_keys() -> None:
    """All of Kafka 4.1's topic settings, our one, and one of Kafka 4.4."""
    entries = DynamicConfig({}).describe_topic({})
    assert [entry.key for entry in entries] == sorted(entry.key for entry in entries)
    assert len(entries) == 35
    assert DynamicConfig({}).describe_topic({}, ["nonsense"]) == []


def test_setting_of_a_group_falls_back_to_the_brokers() -> None:
    """CFG-1: as Kafka's DynamicGroupConfigIntegrationTest describes them since 4.3."""
    key = "consumer.assignment.interval.ms"
    config = DynamicConfig({f"group.{key}": "4"})
    (entry,) = config.describe_group({key: "1"}, [key])
    assert (entry.value, entry.source) == ("1", ConfigSource.GROUP)
    assert [(synonym.key, synonym.value, synonym.source) for synonym in entry.synonyms] == [
        (key, "1", ConfigSource.GROUP),
        (f"group.{key}", "4", ConfigSource.STATIC_BROKER),
        (f"group.{key}", "1000", ConfigSource.DEFAULT),
    ]
    (entry,) = config.describe_group({}, [key])
    assert (entry.value, entry.source, entry.is_default) == ("4", ConfigSource.STATIC_BROKER, False)


def test_setting_that_only_groups_have_falls_back_to_its_default() -> None:
    """CFG-1: there is no setting of the broker for it."""
    key = "share.auto.offset.reset"
    (entry,) = DynamicConfig({}).describe_group({key: "earliest"}, [key])
    assert entry.synonyms == (
        Synonym(key, "earliest", ConfigSource.GROUP),
        Synonym(key, "latest", ConfigSource.DEFAULT),
    )
    (entry,) = DynamicConfig({}).describe_group({}, [key])
    assert (entry.source, entry.is_default) == (ConfigSource.DEFAULT, True)
    assert entry.synonyms == (Synonym(key, "latest", ConfigSource.DEFAULT),)


def test_broker_is_described_with_what_may_change() -> None:
    """CFG-1, CFG-7, CFG-8: secrets have no value, on no level."""
    config = DynamicConfig({"node.id": "3", "ssl.key.password": "secret"})
    config.update({"message.max.bytes": "2000"}, {})
    entries = {entry.key: entry for entry in config.describe_broker()}
    assert entries["node.id"].value == "3"
    assert entries["node.id"].source == ConfigSource.STATIC_BROKER
    assert entries["node.id"].is_read_only
    assert entries["message.max.bytes"].value == "2000"
    assert entries["message.max.bytes"].source == ConfigSource.DYNAMIC_DEFAULT_BROKER
    assert not entries["message.max.bytes"].is_read_only
    password = entries["ssl.key.password"]
    assert password.is_sensitive
    assert password.value is None
    assert [synonym.value for synonym in password.synonyms] == [None]


def test_default_of_all_brokers_is_described_by_what_is_set() -> None:
    """CFG-3: the entity without a name."""
    config = DynamicConfig({"message.max.bytes": "1000"})
    assert config.describe_cluster_default() == []
    config.update({"message.max.bytes": "2000"}, {"message.max.bytes": "3000"})
    (entry,) = config.describe_cluster_default()
    assert (entry.key, entry.value) == ("message.max.bytes", "2000")
    assert entry.source == ConfigSource.DYNAMIC_DEFAULT_BROKER
    assert entry.synonyms == (
        Synonym("message.max.bytes", "2000", ConfigSource.DYNAMIC_DEFAULT_BROKER),
    )
    assert config.value("message.max.bytes") == 3000


def test_listeners_hear_of_values_in_force_only() -> None:
    """CFG-5: applying the same change twice is harmless."""
    config = DynamicConfig({})
    heard: list[frozenset[str]] = []
    config.subscribe(heard.append)
    config.update({"max.connections": "5"}, {})
    config.update({"max.connections": "5"}, {})
    config.update({"max.connections": "6"}, {"max.connections": "5"})
    config.update({}, {})
    assert heard == [frozenset({"max.connections"})] * 2


def test_value_that_cannot_be_applied_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """CFG-5: logged, and the broker goes on."""
    config = DynamicConfig({})
    config.update({"max.connections": "many", "unknown": "1", "num.partitions": "9"}, {})
    assert config.value("max.connections") == 2147483647
    assert config.value("num.partitions") == 1
    assert "max.connections" in caplog.text


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_a_ratio_that_is_no_finite_number_has_a_text(number: str) -> None:
    """Java's; a topic with a ratio of NaN, which Kafka takes too, could not be described."""
    assert value_text(float(number)) == number


@pytest.mark.parametrize(("count", "is_allowed"), [(4, True), (16, True), (3, False), (17, False)])
def test_threads_at_most_halve_or_double(count: int, is_allowed: bool) -> None:
    """CFG-7."""
    overrides = {"num.io.threads": str(count)}
    if is_allowed:
        validate_broker_config(overrides, per_broker=True, values={})
    else:
        with pytest.raises(ConfigError, match=r"num\.io\.threads"):
            validate_broker_config(overrides, per_broker=True, values={})


@pytest.mark.parametrize(
    ("key", "bad", "reason"),
    [
        ("log.retention.ms", "-5", "Value must be at least -1"),
        ("log.segment.bytes", "10", "Value must be at least 1048576"),
        ("log.roll.ms", "0", "Value must be at least 1"),
    ],
)
def test_what_no_topic_could_have_is_no_default_of_topics(
    key: str, bad: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    """log.retention.ms of -5 was accepted, ended all brokers of a cluster, and kept them from
    starting again."""
    message = f"Invalid value {bad} for configuration {key}: {reason}"
    with pytest.raises(ConfigError) as refused:
        validate_broker_config({key: bad}, per_broker=False, values={})
    assert str(refused.value) == message
    config = DynamicConfig({})
    config.update({key: bad}, {})
    assert config.log_config({}) == DynamicConfig({}).log_config({})
    assert message in caplog.text

"""Reading settings: the properties file, the broker's values, a topic's values."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas_broker.config.definitions import ConfigError
from barnabas_broker.config.listeners import Endpoint
from barnabas_broker.config.parse import BY_KEY, BrokerConfig, parse_properties
from barnabas_broker.config.topic import LogConfig, validate_topic_config


def test_properties_are_read_as_java_reads_them() -> None:
    """A file that was written for Kafka must mean the same."""
    text = (
        "# comment\n! comment\n\nplain=1\n  spaced = a b \ncolon:2\nblank 3\nempty=\nalone\n"
        "long=one,\\\n    two\nescaped\\=key=a\\tb\\u00e4\\\\\nplain=last\n  # not a key\n"
    )
    assert parse_properties(text) == {
        "plain": "last",
        "spaced": "a b",
        "colon": "2",
        "blank": "3",
        "empty": "",
        "alone": "",
        "long": "one,two",
        "escaped=key": "a\tbä\\",
    }


@given(st.text(max_size=60))
def test_no_text_breaks_the_reader(text: str) -> None:
    """Only ConfigError comes out."""
    try:
        assert isinstance(parse_properties(text), dict)
    except ConfigError as error:
        assert "is not a character" in str(error)


def test_unknown_key_is_refused_with_the_nearest_named() -> None:
    """BOOT-10."""
    with pytest.raises(ConfigError, match=r"num\.partitons; did you mean num\.partitions\?"):
        BrokerConfig.parse({"num.partitons": "3"})
    with pytest.raises(ConfigError, match=r"^unknown setting zzz$"):
        BrokerConfig.parse({"zzz": "3"})


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("zookeeper.connect", "does not need: brokers agree by the arbiter"),
        ("zookeeper.session.timeout.ms", "leave it out"),
        ("broker.id.generation.enable", "never generated"),
        ("log.message.format.version", "of version 2 always"),
        ("port", "name the address in listeners"),
        # What is public in Kafka 4.4 and was not in 4.1, but for what is served.
        ("config.providers", "as they are written"),
        ("controller.quorum.auto.join.enable", "no controller quorum"),
        ("controller.quorum.fetch.max.bytes", "no controller quorum"),
        ("controller.quorum.fetch.snapshot.max.bytes", "no controller quorum"),
        ("cordoned.log.dirs", "leave it out"),
        ("follower.fetch.last.tiered.offset.enable", "of tiered storage"),
        ("group.coordinator.background.threads", "neither threads nor buffers"),
        ("group.coordinator.cached.buffer.max.bytes", "neither threads nor buffers"),
        ("group.streams.assignment.interval.ms", "of streams groups"),
        ("group.streams.assignors", "of streams groups"),
        ("group.streams.initial.rebalance.delay.ms", "of streams groups"),
        ("group.streams.max.assignment.interval.ms", "of streams groups"),
        ("group.streams.min.assignment.interval.ms", "of streams groups"),
        ("group.streams.rack.aware.assignment.tags", "of streams groups"),
        ("group.streams.topology.description.plugin.class", "of streams groups"),
        ("log.remote.copy.lag.bytes", "of tiered storage"),
        ("log.remote.copy.lag.ms", "of tiered storage"),
        ("max.decompressed.message.bytes", "a bound of its own"),
        ("remote.log.manager.follower.thread.pool.size", "of tiered storage"),
        ("sasl.oauthbearer.allow.unverified.audience", "always verified"),
        ("sasl.oauthbearer.allow.unverified.issuer", "always verified"),
        ("share.coordinator.cached.buffer.max.bytes", "neither threads nor buffers"),
    ],
)
def test_a_setting_of_another_kafka_is_explained(key: str, words: str) -> None:
    """A file that comes from there says what to do in Kafka's terms."""
    with pytest.raises(ConfigError, match=f"{re.escape(key)} is no setting here: .*{words}"):
        BrokerConfig.parse({key: "1"})


def test_kafkas_own_example_file_starts_a_broker() -> None:
    """The keys of config/server.properties of Kafka 4.1: its controller listener is passed over."""
    config = BrokerConfig.parse(
        {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": "localhost:9093",
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "inter.broker.listener.name": "PLAINTEXT",
            "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL",
            "num.network.threads": "3",
            "log.dirs": "/tmp/kraft-combined-logs",
            "offsets.topic.replication.factor": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "log.retention.hours": "168",
            "log.segment.bytes": "1073741824",
        }
    )
    own = Endpoint("REPLICATION", "127.0.0.1", 19092, "PLAINTEXT")
    assert config.listeners == (Endpoint("PLAINTEXT", "", 9092, "PLAINTEXT"), own)
    assert config.advertised_listeners == (
        Endpoint("PLAINTEXT", "localhost", 9092, "PLAINTEXT"),
        own,
    )
    assert config.inter_broker_listener_name == "REPLICATION"
    assert config.log_dirs == ("/tmp/kraft-combined-logs",)
    assert config.metadata_log_dir == "/tmp/kraft-combined-logs"
    assert config.offsets_topic_replication_factor == 1


def test_node_id_and_broker_id_are_one_setting() -> None:
    """NODE-4."""
    assert BrokerConfig.parse({"broker.id": "4"}).node_id == 4
    assert BrokerConfig.parse({}).node_id == -1
    with pytest.raises(ConfigError):
        BrokerConfig.parse({"broker.id": "4", "node.id": "5"})


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"num.partitions": "x"}, "Not a number of type INT"),
        ({"num.partitions": "0"}, "Value must be at least 1"),
        ({"num.partitions": "2147483648"}, "Not a number of type INT"),
        ({"log.segment.bytes": "5"}, "Value must be at least 1048576"),
        # A topic with smaller segments is refused: groups would learn that, not who starts it.
        ({"offsets.topic.segment.bytes": "65536"}, "Value must be at least 1048576"),
        ({"auto.create.topics.enable": "yes"}, "either true or false"),
        ({"log.cleanup.policy": "delete,shred"}, "Invalid value shred .* one of: compact, delete"),
        ({"compression.gzip.level": "0"}, "between 1 and 9 or equal to -1"),
        ({"listeners": "PLAINTEXT:9092"}, "NAME://host:port"),
        ({"listeners": "PLAINTEXT://:70000"}, "NAME://host:port"),
        ({"replica.fetch.wait.max.ms": "40000"}, "more than replica.socket.timeout.ms"),
        (
            {"replica.fetch.wait.max.ms": "600", "replica.lag.time.max.ms": "599"},
            "more than replica.lag.time.max.ms, which is 599",
        ),
        ({"listeners": "MINE://:9092"}, "has no protocol for MINE"),
        ({"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"}, "different name"),
        ({"listeners": " "}, "at least one listener"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "cannot be reached"),
        ({"advertised.listeners": "SSL://a:9092"}, "not one of listeners"),
        ({"log.dirs": "a,a"}, "named twice"),
        ({"log.dirs": "/d/a,/d/b,/d/./a/"}, "/d/a is /d/./a/"),
        ({"log.dirs": "/d/a/b,/d/a-b,/d/a"}, "/d/a/b lies within /d/a"),
        ({"log.dirs": ","}, "at least one directory"),
        ({"log.dirs": "a", "metadata.log.dir": "b"}, "not one of log.dirs"),
        ({"max.connections.per.ip.overrides": "a"}, "host:count"),
        ({"create.topic.policy.class.name": "my.Policy"}, "only the default is accepted"),
        ({"authorizer.class.name": "my.Authorizer"}, "String must be one of"),
        ({"super.users": "User:a;admin"}, "'admin' is not of the form Type:name"),
        ({"super.users": "User:a; :b"}, "':b' is not of the form Type:name"),
        ({"super.users": "User:*"}, "not everybody"),
        ({"barnabas.authorizer.mode": "off"}, "String must be one of"),
        ({"ssl.keystore.type": "JKS", "ssl.allow.dn.changes": "maybe"}, "either true or false"),
    ],
)
def test_values_that_cannot_be_are_refused(properties: dict[str, str], reason: str) -> None:
    """CFG-5: before anything is started, with the key named."""
    with pytest.raises(ConfigError, match=reason):
        BrokerConfig.parse(properties)


def test_secrets_are_not_repeated_in_a_refusal() -> None:
    """CFG-8."""
    from barnabas_broker.config.definitions import PASSWORD, BrokerSetting

    def never(_: str) -> str:
        return "no"

    setting = BrokerSetting("ssl.key.password", PASSWORD, None, "x.", check=never)
    with pytest.raises(ConfigError) as raised:
        setting.parse("hunter2")
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    ("given", "shown"),
    [("0.5", "0.5"), ("1", "1.0"), ("0", "0.0"), ("12345678", "1.2345678E7"), ("1e-5", "1.0E-5"),
     ("-2e10", "-2.0E10"), ("1e300", "1.0E300")],
)  # fmt: skip
def test_doubles_are_shown_as_java_shows_them(given: str, shown: str) -> None:
    """CFG-1: the same output as from Kafka."""
    assert BY_KEY["log.cleaner.io.max.bytes.per.second"].text_of(given) == shown


def test_listener_addresses_of_all_kinds() -> None:
    """BOOT-4: port 0 is allowed, an IPv6 host is in brackets, names are upper case."""
    config = BrokerConfig.parse(
        {
            "listeners": "plaintext://[::1]:0, INSIDE://10.0.0.1:9093",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT",
            "max.connections.per.ip.overrides": "10.0.0.1:5, ::1:7",
        }
    )
    assert [str(endpoint) for endpoint in config.listeners] == [
        "PLAINTEXT://[::1]:0",
        "INSIDE://10.0.0.1:9093",
        "REPLICATION://127.0.0.1:0",
    ]
    assert config.max_connections_per_ip_overrides == {"10.0.0.1": 5, "::1": 7}


@pytest.mark.parametrize(
    ("properties", "own"),
    [
        ({"listeners": "PLAINTEXT://:65000"}, "REPLICATION://127.0.0.1:55000"),
        ({"listeners": "PLAINTEXT://:1,REPLICATION://h:2"}, "REPLICATION://h:2"),
        (
            {"listeners": "PLAINTEXT://a:1,REPLICATION://b:2", "advertised.listeners": "PLAINTEXT://c:1"},
            "REPLICATION://b:2",
        ),
        (
            {
                "listeners": "A://a:1,B://b:2",
                "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT",
                "inter.broker.listener.name": "a",
            },
            "A://a:1",
        ),
    ],
)  # fmt: skip
def test_brokers_have_a_listener_of_their_own(properties: dict[str, str], own: str) -> None:
    """Decision 0014: no client's listener takes the requests of brokers."""
    config = BrokerConfig.parse(properties)
    (found,) = [
        endpoint
        for endpoint in config.advertised_listeners
        if endpoint.name == config.inter_broker_listener_name
    ]
    assert str(found) == own
    assert len(config.listeners) > 1


@pytest.mark.parametrize(
    "properties",
    [
        {"listeners": "PLAINTEXT://:1", "arbiter.backend": "kubernetes"},
        {"listeners": "REPLICATION://:1"},
        {
            "listeners": "PLAINTEXT://a:1,REPLICATION://0.0.0.0:2",
            "advertised.listeners": "PLAINTEXT://a:1",
        },
    ],
)
def test_listeners_by_which_brokers_would_not_find_one_another_are_refused(
    properties: dict[str, str],
) -> None:
    """Decision 0014: nothing is guessed for brokers of several machines."""
    with pytest.raises(ConfigError, match=r"listeners: .*REPLICATION"):
        BrokerConfig.parse(properties)


def test_topic_takes_the_first_level_that_has_a_value() -> None:
    """CFG-1, CFG-2."""
    broker = {"log.retention.hours": "2", "log.segment.bytes": "2000000"}
    assert LogConfig.build({}, {}).retention_ms == 604_800_000
    assert LogConfig.build(broker, {}).retention_ms == 7_200_000
    assert LogConfig.build({**broker, "log.retention.minutes": "3"}, {}).retention_ms == 180_000
    assert LogConfig.build({**broker, "log.retention.ms": "4"}, {}).retention_ms == 4
    assert LogConfig.build(broker, {"retention.ms": "-1"}).retention_ms == -1
    assert LogConfig.build({"log.retention.hours": "-1"}, {}).retention_ms == -1
    assert LogConfig.build(broker, {}).segment_bytes == 2_000_000
    both = LogConfig.build({}, {"cleanup.policy": "compact, delete"})
    assert both.is_compacted
    assert both.deletes_old_segments


@pytest.mark.parametrize(
    ("overrides", "text"),
    [
        ({"nonsense": "1"}, "Unknown topic config name: nonsense"),
        (
            {"segment.ms": "0"},
            "Invalid value 0 for configuration segment.ms: Value must be at least 1",
        ),
        (
            {"min.cleanable.dirty.ratio": "2"},
            "Invalid value 2.0 for configuration min.cleanable.dirty.ratio: "
            "Value must be no more than 1",
        ),
        (
            {"leader.replication.throttled.replicas": "1:,2:3"},
            "Invalid value [1:, 2:3] for configuration leader.replication.throttled.replicas: "
            "leader.replication.throttled.replicas must be the literal '*' or a list of replicas "
            "in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],...",
        ),
        (
            {"compression.type": "zip"},
            "Invalid value zip for configuration compression.type: String must be one of: "
            "uncompressed, zstd, lz4, snappy, gzip, producer",
        ),
    ],
)
def test_refusals_have_the_words_of_kafka(overrides: dict[str, str], text: str) -> None:
    """TOP-5: the tools print them."""
    with pytest.raises(ConfigError) as raised:
        validate_topic_config(overrides)
    assert str(raised.value) == text


@pytest.mark.parametrize("text", ["", "*", "0:1", "0:1,12:34"])
def test_throttled_replicas_are_checked_for_their_form(text: str) -> None:
    """CFG-6."""
    validate_topic_config({"leader.replication.throttled.replicas": text})
    with pytest.raises(ConfigError):
        validate_topic_config({"leader.replication.throttled.replicas": text + ":"})


def test_super_users_are_parted_by_semicolons_and_compared_as_they_are() -> None:
    """SEC-41: a distinguished name has commas and colons of its own."""
    config = BrokerConfig.parse({"super.users": " User:CN=a,O=b ;User:x:y;;User:x:y"})
    assert config.super_users == ("User:CN=a,O=b", "User:x:y")


def test_a_listener_at_the_port_of_the_added_one_is_refused_with_its_name() -> None:
    """Issue 21: else the start fails with a port in use that nobody else has."""
    text = "listeners=OUTSIDE://:9092,INSIDE://:19092"
    mapped = "listener.security.protocol.map=OUTSIDE:PLAINTEXT,INSIDE:PLAINTEXT"
    with pytest.raises(ConfigError, match="INSIDE has port 19092, at which the listener for"):
        BrokerConfig.parse(parse_properties(f"{text}\n{mapped}\n"))

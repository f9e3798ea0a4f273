"""The tables of settings, compared with those of Apache Kafka 4.1 and with their documents."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from barnabas_broker.config import parse, reference, topic_settings
from barnabas_broker.config.broker_settings import BROKER_SETTINGS
from barnabas_broker.config.definitions import USED, BrokerSetting
from barnabas_broker.config.ignored_settings import IGNORED_SETTINGS
from barnabas_broker.config.sasl_settings import SASL
from barnabas_broker.config.topic import LogConfig
from barnabas_broker.config.topic_settings import TOPIC_SETTINGS

ROOT = Path(__file__).parents[3]
BROKER = ROOT / "broker" / "barnabas_broker"
ALL_SETTINGS = (*BROKER_SETTINGS, *SASL, *IGNORED_SETTINGS, *TOPIC_SETTINGS)

# Where a default is not Kafka's on purpose; the row in the table says why.
OTHER_DEFAULTS = {
    "socket.listen.backlog.size",  # a burst of connections overflows 50
    "broker.heartbeat.interval.ms",
    "broker.session.timeout.ms",
    "log.dir",
    "node.id",
    "queued.max.request.bytes",
}

# What Kafka changes while it runs, and a broker here reads at its start; the row says why.
READ_AT_THE_START = {
    "sasl.enabled.mechanisms",
    "sasl.jaas.config",
    "sasl.mechanism.inter.broker.protocol",
}


def kafka_rows() -> list[tuple[str, str, str, str, str]]:
    text = (Path(__file__).parent / "kafka_4_1_settings.tsv").read_text()
    rows = [line.split("\t") for line in text.splitlines() if not line.startswith("#")]
    return [(row[0], row[1], row[2], row[3], row[4]) for row in rows]


def table(resource: str) -> dict[str, BrokerSetting]:
    return topic_settings.BY_KEY if resource == "topic" else parse.BY_KEY


@pytest.mark.parametrize(("resource", "key", "type_", "default", "update"), kafka_rows())
def test_setting_is_kafkas(resource: str, key: str, type_: str, default: str, update: str) -> None:
    """CFG-1, CFG-7: administrators find the same keys, types, defaults and possible changes."""
    setting = table(resource)[key]
    assert setting.type.name == type_
    if key not in OTHER_DEFAULTS:
        expected = None if default in ("null", "<required>") else default[1:-1]
        assert setting.default == expected
    if resource == "broker":
        is_dynamic = update == "dynamic" and key not in READ_AT_THE_START
        assert setting.is_dynamic == is_dynamic


def test_only_known_settings_are_ours() -> None:
    """BOOT-10: a key that is in neither of the two tables of Kafka has to be meant."""
    kafka = {(resource, key) for resource, key, *_ in kafka_rows()}
    ours = {("topic", key) for key in topic_settings.BY_KEY}
    ours |= {("broker", key) for key in parse.BY_KEY}
    assert ours - kafka == {
        ("topic", "barnabas.flush.policy"),
        ("broker", "barnabas.broker.principals"),
        ("broker", "barnabas.broker.users.file"),
        ("broker", "barnabas.other.broker.listeners"),
        ("broker", "barnabas.port.unification.listeners"),
        # Kafka leaves these to the authorizer's own class.
        ("broker", "super.users"),
        ("broker", "allow.everyone.if.no.acl.found"),
        ("broker", "barnabas.authorizer.mode"),
        ("broker", "barnabas.audit"),
        ("broker", "barnabas.audit.file"),
        ("broker", "barnabas.audit.file.bytes.max"),
        # Of Kafka 4.4.
        ("broker", "errors.deadletterqueue.auto.create.topics.enable"),
        ("broker", "errors.deadletterqueue.topic.name.prefix"),
        ("topic", "errors.deadletterqueue.group.enable"),
        ("broker", "group.consumer.assignment.interval.ms"),
        ("broker", "group.consumer.max.assignment.interval.ms"),
        ("broker", "group.consumer.min.assignment.interval.ms"),
        ("broker", "group.consumer.regex.refresh.interval.ms"),
        # Internal in Kafka.
        ("broker", "server.max.startup.time.ms"),
        ("broker", "producer.id.expiration.check.interval.ms"),
        ("broker", "share.coordinator.cold.partition.snapshot.interval.ms"),
        ("broker", "share.coordinator.state.topic.prune.interval.ms"),
        ("broker", "group.share.assignment.interval.ms"),
        ("broker", "group.share.initialize.retry.interval.ms"),
        ("broker", "group.share.max.assignment.interval.ms"),
        ("broker", "group.share.max.delivery.count.limit"),
        ("broker", "group.share.max.partition.max.record.locks"),
        ("broker", "group.share.min.assignment.interval.ms"),
        ("broker", "group.share.min.delivery.count.limit"),
        ("broker", "group.share.min.partition.max.record.locks"),
        ("broker", "admin.http.host"),
        ("broker", "admin.http.port"),
        ("broker", "admin.http.principals"),
        ("broker", "admin.http.protocol"),
        ("broker", "admin.http.socket"),
        ("broker", "admin.http.token.file"),
        ("broker", "admin.http.token.listener"),
        ("broker", "arbiter.backend"),
        ("broker", "barnabas.client.metrics.series.max"),
        ("broker", "arbiter.etcd.ca.file"),
        ("broker", "arbiter.etcd.client.certificate.file"),
        ("broker", "arbiter.etcd.client.key.file"),
        ("broker", "arbiter.etcd.endpoints"),
        ("broker", "arbiter.etcd.key"),
        ("broker", "arbiter.etcd.password"),
        ("broker", "arbiter.etcd.username"),
        ("broker", "arbiter.file.path"),
        ("broker", "arbiter.kubernetes.ca.file"),
        ("broker", "arbiter.kubernetes.lease.name"),
        ("broker", "arbiter.kubernetes.namespace"),
        ("broker", "arbiter.kubernetes.server"),
        ("broker", "arbiter.kubernetes.token.file"),
        ("broker", "arbiter.poll.interval.ms"),
        ("broker", "arbiter.request.timeout.ms"),
        ("broker", "barnabas.half.open.connections.max"),
        ("broker", "barnabas.half.open.connections.per.ip.max"),
        ("broker", "barnabas.login.timeout.ms"),
        ("broker", "barnabas.ssl.certificate.file"),
        ("broker", "barnabas.ssl.key.file"),
        ("broker", "barnabas.disk.reserve.bytes.max"),
        ("broker", "barnabas.disk.reserve.bytes.min"),
        ("broker", "barnabas.disk.reserve.percent"),
        ("broker", "barnabas.flush.bytes"),
        ("broker", "barnabas.flush.policy"),
        ("broker", "barnabas.max.requests.per.connection"),
        ("broker", "barnabas.tail.cache.bytes"),
        ("broker", "barnabas.authorizer.mode"),
        ("broker", "allow.everyone.if.no.acl.found"),
        ("broker", "super.users"),
        ("broker", "barnabas.allow.plain.without.tls"),
        ("broker", "barnabas.oauthbearer.algorithms"),
        ("broker", "barnabas.oauthbearer.jwks.ca.file"),
        ("broker", "barnabas.oauthbearer.service.accounts"),
        ("broker", "barnabas.oauthbearer.token.review"),
        ("broker", "barnabas.bootstrap.users.file"),
        ("broker", "barnabas.sasl.disconnect.on.credential.change"),
        ("broker", "barnabas.scram.previous.credential.ms"),
        ("broker", "cluster.id"),
        ("broker", "metadata.min.members"),
        ("broker", "metadata.members"),
        ("broker", "metadata.member.leaving"),
        ("broker", "metadata.member.lost.ms"),
        ("broker", "leader.replication.throttled.rate"),
        ("broker", "follower.replication.throttled.rate"),
        ("broker", "controller.quorum.lost.ms"),
        ("broker", "broker.fence.on.refused.ms"),
        ("broker", "barnabas.drain.budget.ms"),
        ("broker", "arbiter.time.to.live.ms"),
        ("broker", "console.url"),
    }


@pytest.mark.parametrize("setting", ALL_SETTINGS, ids=lambda setting: setting.name)
def test_default_is_valid_and_in_the_form_that_is_reported(setting: BrokerSetting) -> None:
    """The table's own invariant."""
    setting.parse(setting.default)
    assert setting.text_of(setting.default) == setting.default
    assert setting.why.endswith(".")


def test_no_key_is_in_a_table_twice() -> None:
    """One row says all about a setting."""
    broker_keys = [setting.name for setting in (*BROKER_SETTINGS, *SASL, *IGNORED_SETTINGS)]
    assert len(set(broker_keys)) == len(broker_keys)
    assert [setting.name for setting in TOPIC_SETTINGS] == sorted(topic_settings.BY_KEY)


def test_configuration_objects_have_an_attribute_for_each_row_that_takes_effect() -> None:
    """What is in the table is parsed; what is parsed is in the table."""
    broker = {field.name for field in fields(parse.BrokerConfig)} - {"properties", "tls", "sasl"}
    assert broker == {setting.attribute for setting in BROKER_SETTINGS}
    topic = {field.name for field in fields(LogConfig)}
    assert topic == {setting.attribute for setting in TOPIC_SETTINGS if setting.support == USED}


def test_settings_that_are_said_to_take_effect_are_read_somewhere() -> None:
    """CFG-1: one that nothing reads belongs to the ignored ones, with the reason."""
    tables = {
        "arbiter_settings.py",
        "broker_settings.py",
        "cluster_settings.py",
        "log_settings.py",
        "sasl_settings.py",
        "share_group_settings.py",
        "dynamic.py",
    }
    sources = [path for path in BROKER.rglob("*.py") if path.name not in tables]
    text = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    read = set(re.findall(r"config\.(\w+)", text))
    read |= set(re.findall(r"values\[\"(\w+)\"\]", text))
    fallen_back_to = {key for setting in TOPIC_SETTINGS for key, _ in setting.broker_keys}
    unread = {
        setting.name
        for setting in BROKER_SETTINGS
        if setting.attribute not in read
        and setting.name not in fallen_back_to
        and f'"{setting.name}"' not in text
    }
    assert unread == set()


def test_topic_settings_fall_back_to_broker_settings_that_exist() -> None:
    """CFG-1: and that can hold the same values."""
    for setting in TOPIC_SETTINGS:
        for key, factor in setting.broker_keys:
            assert (parse.BY_KEY[key].type == setting.type) or factor > 1


def test_reference_is_current() -> None:
    """Write it anew with `python -m barnabas_broker.config.reference`."""
    assert (ROOT / reference.DEFAULT_PATH).read_text(encoding="utf-8") == reference.render()


def test_the_reference_lists_every_setting() -> None:
    """It says that a key which is not on it is refused."""
    page = reference.render()
    missing = [setting.name for setting in ALL_SETTINGS if f"`{setting.name}`" not in page]
    assert not missing

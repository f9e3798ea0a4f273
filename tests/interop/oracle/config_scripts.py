"""Scripts about configuration: what is described, changed, and refused."""

from typing import Any

from barnabas_protocol.api import ApiKey
from tests.interop.oracle.side import Side

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


def _resource(kind: int, name: str, *configs: dict[str, Any]) -> dict[str, Any]:
    return {"resource_type": kind, "resource_name": name, "configs": list(configs)}


def _set(name: str, value: str | None) -> dict[str, Any]:
    return {"name": name, "value": value}


def _do(operation: int, name: str, value: str | None) -> dict[str, Any]:
    return {"name": name, "config_operation": operation, "value": value}


async def _describe(
    side: Side, label: str, kind: int, name: str, *keys: str, version: int = 4
) -> None:
    await side.call(
        ApiKey.DESCRIBE_CONFIGS,
        version,
        label,
        resources=[
            {
                "resource_type": kind,
                "resource_name": name,
                "configuration_keys": list(keys) or None,
            }
        ],
        include_synonyms=True,
        include_documentation=True,
    )


async def describe_configs(side: Side) -> None:
    """CFG-1: topics and groups whole, brokers by key, and what cannot be described."""
    topic = await side.topic("described", 1, retention_ms="5000", cleanup_policy="compact")
    for version in side.versions(ApiKey.DESCRIBE_CONFIGS):
        await _describe(side, "topic", TOPIC, topic, version=version)
        await _describe(side, "topic keys", TOPIC, topic, "retention.ms", "nope", version=version)
        for label, kind, name in (
            ("unknown topic", TOPIC, side.named("nothing")),
            ("bad topic name", TOPIC, "a b"),
            ("empty topic name", TOPIC, ""),
            ("unknown broker", BROKER, "77"),
            ("broker that is no number", BROKER, "one"),
            ("unknown type", 99, "x"),
            ("type 0", 0, "x"),
            ("type 3", 3, "x"),
            ("unknown group", GROUP, side.named("group")),
            ("empty group", GROUP, ""),
            ("default broker", BROKER, ""),
            ("metrics", METRICS, "metrics"),
            ("empty metrics", METRICS, ""),
        ):
            await _describe(side, label, kind, name, version=version)
    keys = (
        "log.retention.ms", "log.retention.hours", "num.partitions", "message.max.bytes",
        "log.cleaner.threads", "node.id", "broker.id", "auto.create.topics.enable",
        "min.insync.replicas", "compression.type", "log.segment.bytes", "log.roll.ms",
        "log.roll.hours", "offsets.retention.minutes", "group.max.session.timeout.ms",
        "socket.request.max.bytes", "queued.max.requests", "num.io.threads",
        "num.network.threads", "log.flush.interval.messages", "delete.topic.enable",
        "default.replication.factor", "unclean.leader.election.enable",
        "log.message.timestamp.type", "log.cleanup.policy", "connections.max.idle.ms",
        "offsets.topic.num.partitions", "offset.metadata.max.bytes", "fetch.max.bytes",
        "max.incremental.fetch.session.cache.slots", "producer.id.expiration.ms",
        "no.such.key", "ssl.keystore.password",
    )  # fmt: skip
    for key in keys:
        await _describe(side, f"broker {key}", BROKER, "1", key)
    await _describe(side, "keys as a whole", BROKER, "1", *keys)
    both = [
        {"resource_type": TOPIC, "resource_name": topic, "configuration_keys": ["retention.ms"]},
        {"resource_type": TOPIC, "resource_name": topic, "configuration_keys": []},
    ]
    for flag in (True, False):
        await side.call(
            ApiKey.DESCRIBE_CONFIGS,
            None,
            f"twice {flag}",
            resources=both,
            include_synonyms=flag,
            include_documentation=flag,
        )


async def describe_whole_broker(side: Side) -> None:
    """CFG-1: every static setting with its value, type, source and synonyms."""
    await _describe(side, "whole", BROKER, "1")


async def group_configs(side: Side) -> None:
    """CFG-3: settings of groups, which need not exist."""
    api = ApiKey.INCREMENTAL_ALTER_CONFIGS
    topic = await side.topic("marker")
    group = side.named("group")
    key = "consumer.session.timeout.ms"
    for turn, (label, changes) in enumerate(
        {
            "set": [_do(0, key, "50000")],
            "too low": [_do(0, key, "1000")],
            "too high": [_do(0, key, "100000")],
            "two": [_do(0, key, "46000"), _do(0, "consumer.heartbeat.interval.ms", "6000")],
            "heartbeat above session": [_do(0, "consumer.heartbeat.interval.ms", "47000")],
            "append": [_do(2, key, "1")],
            "delete one": [_do(1, key, None)],
            "delete unknown": [_do(1, "nope", None)],
        }.items()
    ):
        await side.call(api, None, label, resources=[_resource(GROUP, group, *changes)])
        marker = str(80000 + turn)
        await side.call(
            api, silent=True, resources=[_resource(TOPIC, topic, _do(0, "segment.ms", marker))]
        )
        await _settled(side, topic, "segment.ms", marker)
        await _describe(side, f"after {label}", GROUP, group)


async def client_metrics_configs(side: Side) -> None:
    """TEL-1: subscriptions to metrics of clients: what is taken, refused, described and listed."""
    topic = await side.topic("marker")
    name = side.named("subscription")
    cases: dict[str, list[dict[str, Any]]] = {
        "set": [_do(0, "metrics", "org.apache.kafka.producer., org.apache.kafka.consumer.")],
        "all metrics": [_do(0, "metrics", "*")],
        "no metrics": [_do(0, "metrics", "")],
        "often": [_do(0, "interval.ms", "100")],
        "too often": [_do(0, "interval.ms", "99")],
        "seldom": [_do(0, "interval.ms", "3600000")],
        "too seldom": [_do(0, "interval.ms", "3600001")],
        "no number": [_do(0, "interval.ms", "often")],
        "match": [_do(0, "match", "client_software_name=apache-kafka-java, client_id=a.*")],
        "match with spaces": [_do(0, "match", " client_id = b ")],
        "match nobody knows": [_do(0, "match", "client_colour=red")],
        "match without expression": [_do(0, "match", "client_id=")],
        "match without name": [_do(0, "match", "=a")],
        "match without sign": [_do(0, "match", "client_id")],
        "match with two signs": [_do(0, "match", "client_id=a=b")],
        "match a broken expression": [_do(0, "match", "client_id=a(")],
        "match twice": [_do(0, "match", "client_id=a,client_id=b")],
        "an empty match": [_do(0, "match", "")],
        "append": [_do(2, "metrics", "org.apache.kafka.admin.")],
        "subtract": [_do(3, "metrics", "org.apache.kafka.admin.")],
        "append to a number": [_do(2, "interval.ms", "1")],
        "unknown key": [_do(0, "colour", "red")],
        "delete unknown": [_do(1, "colour", None)],
        "good and bad": [_do(0, "metrics", "a"), _do(0, "interval.ms", "1")],
        "null": [_do(0, "metrics", None)],
        "delete one": [_do(1, "interval.ms", None)],
        "delete all": [_do(1, key, None) for key in ("metrics", "interval.ms", "match")],
    }
    api = ApiKey.INCREMENTAL_ALTER_CONFIGS
    for turn, (label, changes) in enumerate(cases.items()):
        await side.call(api, None, label, resources=[_resource(METRICS, name, *changes)])
        marker = str(90000 + turn)
        await side.call(
            api, silent=True, resources=[_resource(TOPIC, topic, _do(0, "segment.ms", marker))]
        )
        await _settled(side, topic, "segment.ms", marker)
        await _describe(side, f"after {label}", METRICS, name)
        await side.call(
            ApiKey.LIST_CONFIG_RESOURCES, None, f"listed after {label}", resource_types=[METRICS]
        )
    await _describe(side, "one key", METRICS, name, "interval.ms", "nope")
    await side.call(
        api, None, "without a name", resources=[_resource(METRICS, "", _do(0, "metrics", "a"))]
    )
    await side.call(
        ApiKey.ALTER_CONFIGS, None, "replace", resources=[_resource(METRICS, name, _set("x", "1"))]
    )


async def alter_configs(side: Side) -> None:
    """CFG-8: AlterConfigs replaces the whole set."""
    api = ApiKey.ALTER_CONFIGS
    topic = await side.topic("altered", 1, retention_ms="5000")
    for version in side.versions(api):
        for label, resources in _alter_cases(side, topic).items():
            if label == "duplicate resource":
                continue  # Apache Kafka never answers it
            for only in (True, False):
                await side.call(
                    api, version, f"{label} only={only}", resources=resources, validate_only=only
                )
    await side.call(
        api, None, "set", resources=[_resource(TOPIC, topic, _set("segment.ms", "9999"))]
    )
    await _settled(side, topic, "segment.ms", "9999")
    await _describe(side, "after", TOPIC, topic, "segment.ms", "retention.ms")


async def _settled(side: Side, topic: str, key: str, value: str) -> None:
    await side.until(
        lambda answer: answer.results[0].configs[0].value == value,
        ApiKey.DESCRIBE_CONFIGS,
        1,
        resources=[{"resource_type": TOPIC, "resource_name": topic, "configuration_keys": [key]}],
    )


def _alter_cases(side: Side, topic: str) -> dict[str, list[dict[str, Any]]]:
    nothing = side.named("nothing")
    return {
        "unknown topic": [_resource(TOPIC, nothing, _set("retention.ms", "1"))],
        "bad topic name": [_resource(TOPIC, "a b", _set("retention.ms", "1"))],
        "empty topic name": [_resource(TOPIC, "", _set("retention.ms", "1"))],
        "unknown key": [_resource(TOPIC, topic, _set("no.such", "1"))],
        "bad value": [_resource(TOPIC, topic, _set("retention.ms", "x"))],
        "null value": [_resource(TOPIC, topic, _set("retention.ms", None))],
        "duplicate key": [
            _resource(TOPIC, topic, _set("retention.ms", "1"), _set("retention.ms", "2"))
        ],
        "duplicate resource": [
            _resource(TOPIC, topic, _set("retention.ms", "1")),
            _resource(TOPIC, topic, _set("segment.ms", "1")),
        ],
        "unknown broker": [_resource(BROKER, "9", _set("log.retention.ms", "100000"))],
        "broker no number": [_resource(BROKER, "x", _set("log.retention.ms", "100000"))],
        "broker read-only": [_resource(BROKER, "1", _set("num.partitions", "3"))],
        "broker unknown": [_resource(BROKER, "1", _set("no.such", "3"))],
        "broker bad value": [_resource(BROKER, "", _set("log.retention.ms", "x"))],
        "unknown type": [_resource(77, "x", _set("a", "b"))],
        "type 0": [_resource(0, "x", _set("a", "b"))],
        "logger": [_resource(LOGGER, "1", _set("a", "b"))],
        "empty group": [_resource(GROUP, "", _set("consumer.session.timeout.ms", "50000"))],
        "group unknown key": [_resource(GROUP, side.named("g"), _set("nope", "50000"))],
        "group bad value": [
            _resource(GROUP, side.named("g"), _set("consumer.session.timeout.ms", "1"))
        ],
        "one good, one bad": [
            _resource(TOPIC, topic, _set("retention.ms", "7000")),
            _resource(TOPIC, nothing, _set("retention.ms", "7000")),
        ],
        "no settings": [_resource(TOPIC, topic)],
        "nothing": [],
    }


async def incremental_alter_configs(side: Side) -> None:
    """CFG-8: set, delete, append, subtract, and every refusal."""
    api = ApiKey.INCREMENTAL_ALTER_CONFIGS
    topic = await side.topic("incremental", 1, retention_ms="5000", cleanup_policy="delete")
    for version in side.versions(api):
        for label, resources in _alter_cases(side, topic).items():
            changes = [
                {
                    **resource,
                    "configs": [{**each, "config_operation": 0} for each in resource["configs"]],
                }
                for resource in resources
            ]
            for only in (True, False):
                await side.call(
                    api, version, f"{label} only={only}", resources=changes, validate_only=only
                )
    cases: dict[str, list[dict[str, Any]]] = {
        "append to a number": [_do(2, "retention.ms", "1")],
        "subtract from a number": [_do(3, "retention.ms", "1")],
        "append null": [_do(2, "cleanup.policy", None)],
        "append nonsense": [_do(2, "cleanup.policy", "burn")],
        "append": [_do(2, "cleanup.policy", "compact")],
        "append again": [_do(2, "cleanup.policy", "compact")],
        "subtract": [_do(3, "cleanup.policy", "delete")],
        "subtract the last": [_do(3, "cleanup.policy", "compact")],
        "subtract what is not there": [_do(3, "cleanup.policy", "delete")],
        "delete": [_do(1, "retention.ms", None)],
        "delete again": [_do(1, "retention.ms", None)],
        "delete unknown": [_do(1, "no.such", None)],
        "delete with a value": [_do(1, "cleanup.policy", "x")],
        "append to unknown": [_do(2, "no.such", "x")],
        "set and delete": [_do(0, "segment.ms", "5"), _do(1, "segment.ms", None)],
        "empty key": [_do(0, "", "5")],
    }
    for label, changes in cases.items():
        await side.call(api, None, label, resources=[_resource(TOPIC, topic, *changes)])
        await side.call(
            api,
            None,
            "marker",
            resources=[_resource(TOPIC, topic, _do(0, "segment.ms", str(7000 + len(label))))],
            silent=True,
        )
        await _settled(side, topic, "segment.ms", str(7000 + len(label)))
        await _describe(side, f"after {label}", TOPIC, topic, "cleanup.policy", "retention.ms")


async def broker_configs(side: Side) -> None:
    """CFG-7: settings that may change, per broker and for all, and their sources."""
    api = ApiKey.INCREMENTAL_ALTER_CONFIGS
    topic = await side.topic("inherits")
    cases: dict[str, tuple[str, list[dict[str, Any]]]] = {
        "cluster-wide": ("", [_do(0, "log.retention.ms", "100000000")]),
        "per broker": ("1", [_do(0, "log.retention.ms", "200000000")]),
        "delete per broker": ("1", [_do(1, "log.retention.ms", None)]),
        "delete cluster-wide": ("", [_do(1, "log.retention.ms", None)]),
        "per-broker key for all": ("", [_do(0, "listeners", "PLAINTEXT://:1")]),
        "read-only for all": ("", [_do(0, "num.partitions", "3")]),
        "read-only": ("1", [_do(0, "node.id", "3")]),
        "delete read-only": ("1", [_do(1, "node.id", None)]),
        "unknown for all": ("", [_do(0, "x.y", "3")]),
        "bad value for all": ("", [_do(0, "message.max.bytes", "many")]),
        "out of range for all": ("", [_do(0, "message.max.bytes", "-1")]),
        "append for all": ("", [_do(2, "log.cleanup.policy", "compact")]),
        "subtract for all": ("", [_do(3, "log.cleanup.policy", "compact")]),
        "delete policy": ("", [_do(1, "log.cleanup.policy", None)]),
        "topic key": ("", [_do(0, "retention.ms", "5")]),
    }
    for label, (name, changes) in cases.items():
        await side.call(api, None, label, resources=[_resource(BROKER, name, *changes)])
        wanted = changes[0]
        if wanted["name"] == "log.retention.ms":
            value = {"cluster-wide": "100000000", "per broker": "200000000"}.get(label)
            value = value or ("100000000" if name else "604800000")
            await _settled(side, topic, "retention.ms", value)
            await _describe(side, f"default after {label}", BROKER, "")
        await _describe(side, f"topic after {label}", TOPIC, topic, "retention.ms")
        await _describe(side, f"broker after {label}", BROKER, "1", "log.retention.ms")
    last = _do(0, "log.retention.ms", "300000000")
    await side.call(api, None, "last", resources=[_resource(BROKER, "", last)])
    await _settled(side, topic, "retention.ms", "300000000")
    await _describe(side, "default in the end", BROKER, "")
    for key in ("log.retention.ms", "x.y", "retention.ms"):
        await side.call(
            api, None, f"drop {key}", resources=[_resource(BROKER, "", _do(1, key, None))]
        )


async def list_config_resources(side: Side) -> None:
    """Which resources have settings."""
    await side.topic("listed")
    for types in ([], [TOPIC], [BROKER], [GROUP], [METRICS], [LOGGER], [TOPIC, GROUP], [99], [0]):
        for version in side.versions(ApiKey.LIST_CONFIG_RESOURCES):
            await side.call(
                ApiKey.LIST_CONFIG_RESOURCES, version, f"{types}", resource_types=types, own=True
            )


async def logger_levels(side: Side) -> None:
    """KIP-412: levels that are set, unset and refused; a broker's settings in the same request."""
    cases: dict[str, tuple[str, list[dict[str, Any]]]] = {
        "set": ("1", [_do(0, "root", "WARN")]),
        "set back": ("1", [_do(0, "root", "INFO")]),
        "small letters": ("1", [_do(0, "root", "warn")]),
        "no level": ("1", [_do(0, "root", "LOUD")]),
        "unknown": ("1", [_do(0, "no.such.logger", "INFO")]),
        "unset unknown": ("1", [_do(1, "no.such.logger", None)]),
        "unset root": ("1", [_do(1, "root", None)]),
        "append": ("1", [_do(2, "root", "INFO")]),
        "subtract": ("1", [_do(3, "root", "INFO")]),
        "null": ("1", [_do(0, "root", None)]),
        "one good, one bad": ("1", [_do(0, "root", "ERROR"), _do(0, "no.such.logger", "INFO")]),
        "another broker": ("7", [_do(0, "root", "INFO")]),
        "no number": ("x", [_do(0, "root", "INFO")]),
        "no name": ("", [_do(0, "root", "INFO")]),
        "nothing": ("1", []),
    }
    api = ApiKey.INCREMENTAL_ALTER_CONFIGS
    await side.call(api, resources=[_resource(LOGGER, "1", _do(0, "root", "INFO"))], silent=True)
    for label, (name, changes) in cases.items():
        resource = _resource(LOGGER, name, *changes)
        for only in (True, False):
            await side.call(
                api, None, f"{label} only={only}", resources=[resource], validate_only=only
            )
            await _describe(side, f"after {label}", LOGGER, "1", "root")
    topic = side.named("nothing")
    mixed = [
        _resource(TOPIC, topic, _do(0, "retention.ms", "7000")),
        _resource(LOGGER, "1", _do(0, "root", "INFO")),
    ]
    await side.call(api, None, "mixed", resources=mixed)
    await side.call(api, None, "twice", resources=[mixed[1], mixed[1]])


SCRIPTS = (
    describe_configs,
    describe_whole_broker,
    group_configs,
    client_metrics_configs,
    alter_configs,
    incremental_alter_configs,
    logger_levels,
    broker_configs,
    list_config_resources,
)

"""`admin.configs` on real brokers."""

import asyncio
from collections.abc import Callable

import pytest

from barnabas_client.admin.values.configs import (
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ConfigType,
    ResourceType,
)
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.errors import NotFoundError, UsageError
from barnabas_protocol.errors import ErrorCode
from tests.client.admin.raw_requests import connected, create_topics
from tests.support.in_process_broker import eventually

Unique = Callable[[str], str]


def test_settings_are_described_with_source_type_synonyms_and_documentation(
    bootstrap: str, unique: Unique
) -> None:
    """What a configuration page shows, for a topic and a broker in one call."""
    topic, broker = ConfigResource.topic(unique("admin.configs")), ConfigResource.broker(1)

    async def run() -> None:
        async with connected(bootstrap) as (_, admin):
            await create_topics(admin, NewTopic(name=topic.name, configs={"retention.ms": "5000"}))
            described = await admin.configs.describe(
                [topic, broker], include_synonyms=True, include_documentation=True
            )
            retention = described[topic].unwrap()["retention.ms"]
            assert (retention.value, retention.source) == ("5000", ConfigSource.DYNAMIC_TOPIC)
            assert retention.type is ConfigType.LONG
            assert retention.documentation
            assert retention.synonyms[0].name == "retention.ms"
            assert not retention.is_default
            assert described[topic].unwrap()["cleanup.policy"].is_default
            number = described[broker].unwrap()["node.id"]
            assert (number.source, number.is_read_only) == (ConfigSource.STATIC_BROKER, True)

            wanted = {topic: ["retention.ms", "cleanup.policy"], broker: None}
            some = (await admin.configs.describe(wanted)).unwrap()
            assert some[topic].keys() == {"retention.ms", "cleanup.policy"}
            assert some[topic]["retention.ms"].documentation is None
            assert some[topic]["retention.ms"].synonyms == ()
            assert len(some[broker]) > 20
            await admin.topics.delete([topic.name])

    asyncio.run(run())


def test_changes_leave_other_settings_alone_and_replacing_does_not(
    bootstrap: str, unique: Unique
) -> None:
    """KIP-339: incremental changes, list elements too; the legacy form forgets what it omits."""
    topic = ConfigResource.topic(unique("admin.configs"))

    async def run() -> None:
        async with connected(bootstrap) as (_, admin):
            await create_topics(
                admin, NewTopic(name=topic.name, configs={"cleanup.policy": "delete"})
            )

            async def values() -> dict[str, str | None]:
                entries: dict[str, ConfigEntry] = (await admin.configs.describe([topic])).unwrap()[
                    topic
                ]
                return {
                    one.name: one.value
                    for one in entries.values()
                    if one.source is ConfigSource.DYNAMIC_TOPIC
                }

            def are(expected: dict[str, str]) -> Callable[[], object]:
                async def check() -> bool:
                    return await values() == expected

                return check

            changes = [
                ConfigChange.set("retention.ms", "7000"),
                ConfigChange.append("cleanup.policy", "compact"),
            ]
            (await admin.configs.alter({topic: changes}, validate_only=True)).unwrap()
            assert await values() == {"cleanup.policy": "delete"}
            (await admin.configs.alter({topic: changes})).unwrap()
            await eventually(
                are({"cleanup.policy": "delete,compact", "retention.ms": "7000"})  # type: ignore[arg-type]
            )
            back = [
                ConfigChange.delete("retention.ms"),
                ConfigChange.subtract("cleanup.policy", "delete"),
            ]
            (await admin.configs.alter({topic: back})).unwrap()
            await eventually(are({"cleanup.policy": "compact"}))  # type: ignore[arg-type]
            (await admin.configs.replace({topic: {"segment.bytes": "2000000"}})).unwrap()
            await eventually(are({"segment.bytes": "2000000"}))  # type: ignore[arg-type]
            await admin.topics.delete([topic.name])

    asyncio.run(run())


def test_wrong_settings_and_resources_fail_alone(bootstrap: str, unique: Unique) -> None:
    """A value out of range, a topic that is not there, a broker that is not there."""
    topic = ConfigResource.topic(unique("admin.configs"))
    missing, broker = ConfigResource.topic("no-such-topic"), ConfigResource.broker(77)

    async def run() -> None:
        async with connected(bootstrap) as (_, admin):
            await create_topics(admin, NewTopic(name=topic.name))
            wrong = [ConfigChange.set("retention.ms", "soon")]
            altered = await admin.configs.alter({topic: wrong, missing: wrong})
            error = altered[topic].error
            assert isinstance(error, UsageError)
            assert error.code is ErrorCode.INVALID_CONFIG
            assert str(error).startswith(f"alter settings of topic {topic.name}: ")
            assert altered[missing].error is not None
            described = await admin.configs.describe([topic, missing, broker])
            assert described[topic].is_ok
            assert isinstance(described[missing].error, NotFoundError)
            assert isinstance(described[broker].error, NotFoundError)
            with pytest.raises(UsageError, match="one"):
                (
                    await admin.configs.describe([ConfigResource(ResourceType.BROKER, "one")])
                ).unwrap()
            await admin.topics.delete([topic.name])

    asyncio.run(run())


def test_resources_with_settings_are_listed_by_type(bootstrap: str, unique: Unique) -> None:
    """ListConfigResources (KIP-1142), of all types and of one."""
    topic = ConfigResource.topic(unique("admin.configs"))

    async def run() -> None:
        async with connected(bootstrap) as (_, admin):
            await create_topics(admin, NewTopic(name=topic.name))
            everything = await admin.configs.list_resources()
            assert topic in everything
            assert ConfigResource.broker(1) in everything
            topics = await admin.configs.list_resources([ResourceType.TOPIC])
            assert topic in topics
            assert {one.type for one in topics} == {ResourceType.TOPIC}
            assert topic not in await admin.configs.list_resources([ResourceType.CLIENT_METRICS])
            await admin.topics.delete([topic.name])

    asyncio.run(run())


def test_groups_and_client_metrics_have_settings_too(bootstrap: str, unique: Unique) -> None:
    """Group settings (KIP-848) and subscriptions to client metrics (KIP-714) are resources."""
    group = ConfigResource.group(unique("admin.group"))
    metrics = ConfigResource.client_metrics(unique("admin.metrics"))

    async def run() -> None:
        async with connected(bootstrap) as (_, admin):
            changes = {
                group: [ConfigChange.set("consumer.heartbeat.interval.ms", "6000")],
                metrics: [ConfigChange.set("interval.ms", "10000")],
            }
            (await admin.configs.alter(changes)).unwrap()

            async def are_listed() -> bool:
                return {group, metrics} <= set(await admin.configs.list_resources())

            await eventually(are_listed)
            described = (await admin.configs.describe([group, metrics])).unwrap()
            heartbeat = described[group]["consumer.heartbeat.interval.ms"]
            assert (heartbeat.value, heartbeat.source) == ("6000", ConfigSource.DYNAMIC_GROUP)
            interval = described[metrics]["interval.ms"]
            assert (interval.value, interval.source) == (
                "10000",
                ConfigSource.DYNAMIC_CLIENT_METRICS,
            )
            assert await admin.configs.list_resources([ResourceType.CLIENT_METRICS]) == (metrics,)
            (await admin.configs.alter({metrics: [ConfigChange.delete("interval.ms")]})).unwrap()
            loggers = ConfigResource.broker_logger(1)
            levels = (await admin.configs.describe([loggers]))[loggers].unwrap()
            assert levels["root"].source is ConfigSource.DYNAMIC_BROKER_LOGGER

    asyncio.run(run())

"""Dead letters of share groups: the same script on Barnabas and on Apache Kafka 4.4 (KIP-1191)."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pytest

from barnabas_client import AcknowledgeType, BarnabasError, ShareConsumer
from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.configs import ConfigChange, ConfigResource, ResourceType
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.consumer import Consumer
from tests.client.admin.raw_requests import create_topics
from tests.interop.share_brokers import configure, prepare, send, start_share_broker, take
from tests.interop.started_brokers import AnyBroker
from tests.support.in_process_broker import eventually

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

EXPLICIT: dict[str, Any] = {"share_acknowledgement_mode": "explicit"}
PERMITTED = {"errors.deadletterqueue.group.enable": "true"}
PREFIX = "__dlq.errors."
REJECT, RELEASE, ACCEPT = AcknowledgeType.REJECT, AcknowledgeType.RELEASE, AcknowledgeType.ACCEPT


@pytest.fixture(scope="module", params=["barnabas", "4.4.0"])
def share(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The address of a broker whose share groups have dead letters."""
    broker: AnyBroker = start_share_broker(request.param, tmp_path_factory.mktemp("share"))
    yield broker.bootstrap
    broker.stop()


class Letter(NamedTuple):
    """What a dead letter says."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: dict[str, bytes | None]

    @property
    def source(self) -> tuple[bytes | None, bytes | None]:
        """Partition and offset of the record."""
        return self.headers["partition"], self.headers["offset"]


async def letters(bootstrap: str, topic: str, count: int, partitions: int = 1) -> list[Letter]:
    """Read so many dead letters, and see that there are no more."""
    found: list[Letter] = []
    consumer = Consumer(bootstrap, auto_offset_reset="earliest")
    async with consumer, asyncio.timeout(60):
        consumer.assign([(topic, index) for index in range(partitions)])
        while len(found) < count or await more(consumer, found):
            found += [letter_of(one) for one in await consumer.poll(timeout_ms=500)]
    return sorted(found, key=lambda one: str(one.source))


async def more(consumer: Consumer, found: list[Letter]) -> bool:
    """Whether further ones come; they are added."""
    records = await consumer.poll(timeout_ms=1_000)
    found += [letter_of(one) for one in records]
    return bool(records)


def letter_of(record: Any) -> Letter:
    headers = {name.removeprefix(PREFIX): value for name, value in record.headers}
    assert all(name.startswith(PREFIX) for name, _ in record.headers)
    return Letter(record.partition, record.key, record.value, headers)


async def reject(
    bootstrap: str, topic: str, group: str, values: Sequence[bytes], kind: AcknowledgeType = REJECT
) -> None:
    """Have a member reject records with these values; it accepts what it gets besides."""
    async with ShareConsumer(bootstrap, group_id=group, **EXPLICIT) as consumer:
        consumer.subscribe([topic])
        rejected: set[bytes] = set()
        async with asyncio.timeout(60):
            while rejected != set(values):
                for record in await consumer.poll(timeout_ms=500):
                    wanted = record.value in values
                    consumer.acknowledge(record, kind if wanted else ACCEPT)
                    if wanted:
                        rejected.add(record.value)
                assert not any((await consumer.commit()).values())


async def final(bootstrap: str, group: str, topic: str) -> None:
    """Wait until nothing of a topic is left for a group."""
    async with Admin(bootstrap) as admin:

        async def is_final() -> bool:
            offsets = (await admin.share_groups.list_offsets([group])).unwrap()[group]
            lags = [
                one.lag for place, one in offsets.items() if one is not None and place[0] == topic
            ]
            return bool(lags) and not any(lags)

        await eventually(is_final)


def test_a_rejected_record_says_where_it_was(share: str) -> None:
    """SHR-36, SHR-37: in the partition of its own modulo those of the topic."""

    async def run() -> None:
        await prepare(share, "t1", "g1", partition_count=3)
        async with Admin(share) as admin:
            await create_topics(
                admin, NewTopic(name="dlq.t1", partition_count=2, configs=PERMITTED)
            )
            await configure(admin, "g1", errors_deadletterqueue_topic_name="dlq.t1")
        for index in range(3):
            await send(share, "t1", [b"%d-%d" % (index, n) for n in range(3)], partition=index)
        await reject(share, "t1", "g1", [b"0-1", b"1-0", b"2-2"])
        found = await letters(share, "dlq.t1", 3, 2)
        assert [(one.source, one.partition) for one in found] == [
            ((b"0", b"1"), 0),
            ((b"1", b"0"), 1),
            ((b"2", b"2"), 0),
        ]
        assert [(one.key, one.value) for one in found] == [(None, None)] * 3
        assert found[0].headers == {
            "topic": b"t1",
            "partition": b"0",
            "offset": b"1",
            "group": b"g1",
            "delivery.count": b"1",
            "message": b"Offset rejected by client.",
        }

    asyncio.run(run())


def test_a_record_at_its_limit_is_copied(share: str) -> None:
    """SHR-11, SHR-37: with its key and value where the group wants that."""

    async def run() -> None:
        await prepare(share, "t2", "g2")
        async with Admin(share) as admin:
            await create_topics(
                admin, NewTopic(name="dlq.t2", partition_count=1, configs=PERMITTED)
            )
            await configure(
                admin,
                "g2",
                errors_deadletterqueue_topic_name="dlq.t2",
                errors_deadletterqueue_copy_record_enable="true",
                share_delivery_count_limit="2",
            )
        await send(share, "t2", [b"value"], key=b"key", headers=[("h", b"x")])
        async with ShareConsumer(share, group_id="g2", **EXPLICIT) as consumer:
            consumer.subscribe(["t2"])
            for count in (1, 2):
                (record,) = await take(consumer, 1)
                assert record.delivery_count == count
                consumer.acknowledge(record, RELEASE)
                assert not any((await consumer.commit()).values())
        (letter,) = await letters(share, "dlq.t2", 1)
        assert (letter.key, letter.value) == (b"key", b"value")
        assert letter.headers["delivery.count"] == b"2"
        assert letter.headers["message"] == b"Offset delivery count exceeded the threshold."
        assert len(letter.headers) == 6

    asyncio.run(run())


@pytest.mark.parametrize(
    ("name", "configs"),
    [("dlq.forbidden", {}), ("graveyard", PERMITTED), ("dlq.missing", None)],
)
def test_a_topic_that_may_not_have_them_gets_none(
    share: str, name: str, configs: dict[str, str] | None
) -> None:
    """SHR-35: the record is archived all the same, and nobody makes a topic."""
    topic, group = f"t-{name}", f"g-{name}"

    async def run() -> None:
        await prepare(share, topic, group)
        async with Admin(share) as admin:
            if configs is not None:
                await create_topics(admin, NewTopic(name=name, partition_count=1, configs=configs))
            await configure(admin, group, errors_deadletterqueue_topic_name=name)
            await send(share, topic, [b"bad"])
            await reject(share, topic, group, [b"bad"])
            await final(share, group, topic)
            if configs is None:
                assert name not in [one.name for one in await admin.topics.list()]
            else:
                assert await letters(share, name, 0) == []

    asyncio.run(run())


def test_a_missing_topic_is_made_where_the_cluster_permits_it(share: str) -> None:
    """SHR-35: with what it needs to be one; the setting holds at once."""

    async def run() -> None:
        await prepare(share, "t5", "g5")
        async with Admin(share) as admin:
            brokers = ConfigResource(ResourceType.BROKER, "")
            key = "errors.deadletterqueue.auto.create.topics.enable"
            (await admin.configs.alter({brokers: [ConfigChange.set(key, "true")]})).unwrap()
            await configure(admin, "g5", errors_deadletterqueue_topic_name="dlq.t5")
            await send(share, "t5", [b"bad"])
            await reject(share, "t5", "g5", [b"bad"])

            async def is_there() -> bool:
                return "dlq.t5" in [one.name for one in await admin.topics.list()]

            await eventually(is_there)
            (letter,) = await letters(share, "dlq.t5", 1)
            assert letter.source == (b"0", b"0")
            resource = ConfigResource(ResourceType.TOPIC, "dlq.t5")
            described = (await admin.configs.describe([resource])).unwrap()[resource]
            assert described["errors.deadletterqueue.group.enable"].value == "true"
            assert described["message.timestamp.type"].value == "CreateTime"
            (await admin.configs.alter({brokers: [ConfigChange.delete(key)]})).unwrap()

    asyncio.run(run())


def test_settings_are_described_and_refused_alike(share: str) -> None:
    """SHR-4, SHR-35, SHR-38: names, defaults, and what is refused in which words."""

    async def run() -> None:
        async with Admin(share) as admin:
            group = ConfigResource(ResourceType.GROUP, "g6")
            reset = "share.auto.offset.reset"
            refused = [
                ("errors.deadletterqueue.topic.name", "__dead"),
                ("errors.deadletterqueue.copy.record.enable", "perhaps"),
                *((reset, f"by_duration:{text}") for text in ("", "PT", "P1M", "-PT1H", "PT-1S")),
                *((reset, text) for text in ("none", "EARLIEST", "by_duration")),
            ]
            messages = []
            for name, value in refused:
                with pytest.raises(BarnabasError) as error:
                    (await admin.configs.alter({group: [ConfigChange.set(name, value)]})).unwrap()
                messages.append(str(error.value))
            assert "DLQ topic name must not start with '__'" in messages[0]
            assert "Expected value to be either true or false" in messages[1]
            for message in messages[2:]:
                assert "or of the format 'by_duration:<PnDTnHnMn.nS>'." in message
            for text in ("P1D", "pt1h", "-PT-1H", "PT1.5S", "P1DT-1H", "PT1,5S"):
                changes = [ConfigChange.set(reset, f"by_duration:{text}")]
                (await admin.configs.alter({group: changes})).unwrap()
            await configure(admin, "g6", errors_deadletterqueue_topic_name="dlq.x")
            described = (await admin.configs.describe([group])).unwrap()[group]
            assert described["errors.deadletterqueue.topic.name"].value == "dlq.x"
            assert described["errors.deadletterqueue.copy.record.enable"].value == "false"
            features = (await admin.features.describe()).finalized
            assert features["share.version"].maximum == 2

    asyncio.run(run())

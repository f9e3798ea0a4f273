"""Transactions against Barnabas and Apache Kafka, by both protocols (TXN, PRD-11)."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from barnabas_client.cluster.offsets import ConsumerGroupMetadata, OffsetAndMetadata
from barnabas_client.config import ClientSettings
from barnabas_client.errors import (
    AbortableError,
    CommitFailedError,
    FencedError,
    IllegalStateError,
    RecordTooLargeError,
)
from barnabas_client.network import Client, CoordinatorType
from barnabas_client.producer import Producer
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from barnabas_protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.client.producer.reading import read_all
from tests.support.apache_kafka import ApacheKafka
from tests.support.barnabas_process import BarnabasProcess
from tests.support.client_brokers import PROPERTIES

Unique = Callable[[str], str]
_SAFE_DOWNGRADE = 2


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(("barnabas", 2), id="barnabas, version 2"),
        pytest.param(("barnabas", 1), id="barnabas, version 1"),
        pytest.param(("apache", 2), id="apache, version 2", marks=pytest.mark.interop),
        pytest.param(("apache", 1), id="apache, version 1", marks=pytest.mark.interop),
    ],
)
def kafka(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A broker whose clients follow that version of the protocol."""
    kind, version = request.param
    directory: Path = tmp_path_factory.mktemp("transactions")
    broker = (
        ApacheKafka(directory, properties=PROPERTIES, heap="512M")
        if kind == "apache"
        else BarnabasProcess(directory, properties=PROPERTIES)
    )
    with broker:
        if version == 1:
            asyncio.run(set_transaction_version(broker.bootstrap, 1))
        yield broker.bootstrap


async def set_transaction_version(bootstrap: str, version: int) -> None:
    async with client_of(bootstrap) as client:
        update = FeatureUpdateKey(
            feature="transaction.version", max_version_level=version, upgrade_type=_SAFE_DOWNGRADE
        )
        request = UpdateFeaturesRequest(timeout_ms=10_000, feature_updates=[update])
        response = await client.request_controller(request)
        assert response.error_code == ErrorCode.NONE, response


@asynccontextmanager
async def client_of(bootstrap: str) -> AsyncIterator[Client]:
    client = Client(ClientSettings.create({"bootstrap_servers": bootstrap}))
    await client.start()
    try:
        yield client
    finally:
        await client.close()


async def committed_offset(bootstrap: str, group: str, topic: str) -> int:
    async with client_of(bootstrap) as client:
        node = await client.coordinator(CoordinatorType.GROUP, group)
        wanted = OffsetFetchRequestTopic(name=topic, partition_indexes=[0])
        # With `require_stable` the broker says so while a transaction is pending.
        request = OffsetFetchRequest(group_id=group, topics=[wanted], require_stable=True)
        async with asyncio.timeout(20):
            while True:
                response = await client.request(node, request, version=7)
                partition = response.topics[0].partitions[0]
                if partition.error_code != ErrorCode.UNSTABLE_OFFSET_COMMIT:
                    assert partition.error_code == ErrorCode.NONE
                    return int(partition.committed_offset)


async def committed_values(bootstrap: str, topic: str, count: int) -> list[bytes]:
    """What readers of committed records see; markers are written a moment after the answer."""
    async with asyncio.timeout(20):
        while True:
            found = await read_all(bootstrap, topic, is_committed=True)
            values = sorted(record.value or b"" for part in found.values() for record in part)
            if len(values) >= count:
                return values


def test_committed_transactions_are_seen_and_aborted_ones_are_not(
    kafka: str, unique: Unique
) -> None:
    """TXN-9; many in a row, over all partitions, with records of several batches."""
    topic, name = unique("mixed"), unique("id")

    async def run() -> None:
        expected: list[bytes] = []
        async with Producer(kafka, transactional_id=name, batch_size=200) as producer:
            await producer.init_transactions()
            for number in range(10):
                await producer.begin_transaction()
                values = [b"%d-%d" % (number, record) for record in range(30)]
                sent = [
                    producer.send(topic, value, partition=record % 4)
                    for record, value in enumerate(values)
                ]
                if number % 3 == 2:
                    await sent[0]
                    await producer.abort_transaction()
                else:
                    await producer.commit_transaction()
                    expected += values
                    assert all(delivery.result().offset >= 0 for delivery in sent)
        assert await committed_values(kafka, topic, len(expected)) == sorted(expected)
        everything = await read_all(kafka, topic)
        assert sum(map(len, everything.values())) > len(expected)

    asyncio.run(run())


def test_a_transaction_block_commits_or_aborts(kafka: str, unique: Unique) -> None:
    """An exception in the block aborts and goes on to the caller; the next block works."""
    topic, name = unique("block"), unique("id")

    async def run() -> None:
        async with Producer(kafka, transactional_id=name) as producer:
            with pytest.raises(KeyError):
                async with producer.transaction():
                    await producer.send(topic, b"gone")
                    producer.send(topic, b"given up")
                    raise KeyError
            async with producer.transaction():
                producer.send(topic, b"kept")
            async with producer.transaction():
                pass
        assert await committed_values(kafka, topic, 1) == [b"kept"]

    asyncio.run(run())


def test_offsets_and_records_move_together(kafka: str, unique: Unique) -> None:
    """TXN-4, TXN-9: consume, transform, produce."""
    source, topic, group, name = unique("source"), unique("to"), unique("group"), unique("id")
    member = ConsumerGroupMetadata(group)
    partition = TopicPartition(source, 0)

    async def run() -> None:
        async with Producer(kafka) as plain:
            await plain.send(source, b"in", partition=0)
        async with Producer(kafka, transactional_id=name) as producer:
            async with producer.transaction():
                producer.send(topic, b"out")
                await producer.send_offsets({partition: OffsetAndMetadata(1)}, member)
            assert await committed_offset(kafka, group, source) == 1
            with pytest.raises(KeyError):
                async with producer.transaction():
                    await producer.send_offsets({partition: OffsetAndMetadata(9)}, member)
                    raise KeyError
            assert await committed_offset(kafka, group, source) == 1
            lost = ConsumerGroupMetadata(group, generation_id=7, member_id="unknown")
            with pytest.raises(CommitFailedError):
                async with producer.transaction():
                    await producer.send_offsets({partition: OffsetAndMetadata(9)}, lost)
            async with producer.transaction():
                await producer.send_offsets({partition: OffsetAndMetadata(2)}, member)
            assert await committed_offset(kafka, group, source) == 2
        assert await committed_values(kafka, topic, 1) == [b"out"]

    asyncio.run(run())


def test_the_newer_producer_fences_the_older(kafka: str, unique: Unique) -> None:
    """What the older one had open is aborted; all it can do is close."""
    topic, name = unique("fenced"), unique("id")

    async def run() -> None:
        old, new = (Producer(kafka, transactional_id=name) for _ in range(2))
        async with old:
            await old.init_transactions()
            await old.begin_transaction()
            await old.send(topic, b"old")
            async with new:
                await new.init_transactions()
                with pytest.raises(FencedError):
                    await old.commit_transaction()
                with pytest.raises(FencedError):
                    await old.begin_transaction()
                with pytest.raises(FencedError):
                    old.send(topic, b"more")
                async with new.transaction():
                    new.send(topic, b"new")
        assert await committed_values(kafka, topic, 1) == [b"new"]

    asyncio.run(run())


def test_a_failed_record_fails_the_transaction_and_an_abort_repairs_it(
    kafka: str, unique: Unique
) -> None:
    """PRD-11: abortable; afterwards numbers are in order again (KIP-360)."""
    topic, name = unique("failed"), unique("id")
    settings: dict[str, Any] = {"max_request_size": 4_000_000}

    async def run() -> None:
        async with Producer(kafka, transactional_id=name, **settings) as producer:
            async with producer.transaction():
                producer.send(topic, b"first", partition=0)
            await producer.begin_transaction()
            await producer.send(topic, b"before", partition=0)
            with pytest.raises(RecordTooLargeError):
                await producer.send(topic, b"v" * 2_000_000, partition=0)
            with pytest.raises(AbortableError, match="abort"):
                producer.send(topic, b"after", partition=0)
            with pytest.raises(AbortableError):
                await producer.commit_transaction()
            await producer.abort_transaction()
            async with producer.transaction():
                producer.send(topic, b"second", partition=0)
                producer.send(topic, b"third", partition=1)
        assert await committed_values(kafka, topic, 3) == [b"first", b"second", b"third"]

    asyncio.run(run())


def test_calls_out_of_order_say_what_is_missing(kafka: str, unique: Unique) -> None:
    """State errors raise at once and change nothing."""
    topic, name = unique("order"), unique("id")

    async def run() -> None:
        async with Producer(kafka, transactional_id=name) as producer:
            with pytest.raises(IllegalStateError, match="init_transactions"):
                await producer.begin_transaction()
            await producer.init_transactions()
            with pytest.raises(IllegalStateError, match="no transaction is open"):
                producer.send(topic, b"v")
            with pytest.raises(IllegalStateError, match="no transaction is open"):
                await producer.commit_transaction()
            await producer.begin_transaction()
            with pytest.raises(IllegalStateError, match="a transaction is open"):
                await producer.begin_transaction()
            producer.send(topic, b"v")
            await producer.commit_transaction()
        assert await committed_values(kafka, topic, 1) == [b"v"]

    asyncio.run(run())


def test_closing_aborts_what_is_open(kafka: str, unique: Unique) -> None:
    """Else readers of committed records would wait for `transaction_timeout_ms`."""
    topic, name = unique("closing"), unique("id")

    async def run() -> None:
        async with Producer(kafka, transactional_id=name) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send(topic, b"open", partition=0)
        async with Producer(kafka) as plain:
            await plain.send(topic, b"plain", partition=0)
        assert await committed_values(kafka, topic, 1) == [b"plain"]

    asyncio.run(run())

"""When the picture of the cluster is asked for anew, and how often."""

import asyncio

import pytest

from barnabas_client.config import ClientSettings
from barnabas_client.errors import AuthorizationError, BarnabasError, BrokerUnreachableError
from barnabas_client.network import Client, metadata_refresher
from barnabas_protocol.api import ApiKey
from barnabas_protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.support.in_process_broker import eventually
from tests.support.scripted_broker import SILENCE, Received, ScriptedBroker, scripted_brokers


def client_of(broker: ScriptedBroker, **more: object) -> Client:
    values = {"bootstrap_servers": broker.bootstrap, "retry_backoff_ms": 20, **more}
    return Client(ClientSettings.create(values))


def test_one_question_is_in_flight_however_many_ask() -> None:
    """CLI-7: and those who asked meanwhile get a picture that is asked for after their call."""
    held: list[Received] = []

    def hold(received: Received) -> object:
        held.append(received)
        return SILENCE

    async def run() -> None:
        async with scripted_brokers() as (broker,):
            client = client_of(broker)
            await client.start()
            broker.script[ApiKey.METADATA] = hold
            callers = [asyncio.ensure_future(client.refresh())]
            await eventually(lambda: _is(len(held) == 1))
            callers += [asyncio.ensure_future(client.refresh()) for _ in range(20)]
            for _ in range(20):
                client.request_refresh()
                await asyncio.sleep(0)
            assert len(held) == 1
            held[0].connection.answer(held[0], broker.metadata())
            first = await callers.pop(0)
            await eventually(lambda: _is(len(held) == 2))
            held[1].connection.answer(held[1], broker.metadata())
            versions = {picture.version for picture in await asyncio.gather(*callers)}
            assert versions == {first.version + 1}
            assert len(held) == 2
            await client.close()

    asyncio.run(run())


async def _is(value: bool) -> bool:
    return value


def test_a_picture_that_is_old_is_renewed() -> None:
    """`metadata_max_age_ms`, without anybody asking."""

    async def run() -> None:
        async with scripted_brokers() as (broker,):
            client = client_of(broker, metadata_max_age_ms=20)
            await client.start()
            await client.wait_for_version(3, timeout_ms=9000)
            await client.close()

    asyncio.run(run())


def test_missing_leaders_are_asked_for_until_they_are_there() -> None:
    """Nobody has to ask again: the picture itself says that it is not complete."""

    async def run() -> None:
        async with scripted_brokers() as (broker,):
            client = client_of(broker)
            await client.start()
            part = MetadataResponsePartition(partition_index=0, leader_id=-1)
            broker.topics = [MetadataResponseTopic(name="t", partitions=[part])]
            await client.wait_for_topic("t", timeout_ms=9000)
            assert client.cluster.leader("t", 0) is None
            part.leader_id = 1
            await eventually(lambda: _is(client.cluster.leader("t", 0) is not None))
            asked = broker.count(ApiKey.METADATA)
            await client.refresh()
            assert broker.count(ApiKey.METADATA) <= asked + 2
            await client.close()

    asyncio.run(run())


def test_a_topic_that_is_not_there_holds_no_other_up() -> None:
    """Found by story 257 of clients on clusters: the first record waited for another's backoff."""

    async def run() -> None:
        async with scripted_brokers() as (broker,):
            client = client_of(broker, retry_backoff_ms=60_000, retry_backoff_max_ms=60_000)
            await client.start()
            part = MetadataResponsePartition(partition_index=0, leader_id=1)
            gone = MetadataResponseTopic(name="gone", error_code=3)
            broker.topics = [gone]
            client.want_topics(["gone"])
            await eventually(lambda: _is("gone" in client.cluster.topics))
            broker.topics = [gone, MetadataResponseTopic(name="t", partitions=[part])]
            assert (await client.wait_for_topic("t", timeout_ms=9000)).partitions
            await client.close()

    asyncio.run(run())


def test_a_refused_topic_is_told_at_once_and_may_be_granted_later() -> None:
    """Authorization is not waited for; but asking again looks again."""

    async def run() -> None:
        async with scripted_brokers() as (broker,):
            client = client_of(broker)
            await client.start()
            broker.topics = [MetadataResponseTopic(name="t", error_code=29)]
            with pytest.raises(AuthorizationError, match="'t'"):
                await client.wait_for_topic("t", timeout_ms=9000)
            part = MetadataResponsePartition(partition_index=0, leader_id=1)
            broker.topics = [MetadataResponseTopic(name="t", partitions=[part])]
            assert (await client.wait_for_topic("t", timeout_ms=9000)).partitions
            await client.close()

    asyncio.run(run())


def test_a_response_without_brokers_is_no_metadata() -> None:
    """A broker that is just starting knows nobody yet; what we have is better."""

    async def run() -> None:
        async with scripted_brokers() as (broker,):
            client = client_of(broker)
            await client.start()
            broker.script[ApiKey.METADATA] = lambda _: MetadataResponse()
            with pytest.raises(BrokerUnreachableError, match="knows of no brokers"):
                await client.refresh(timeout_ms=60)
            assert list(client.cluster.nodes) == [1]
            await client.close()

    asyncio.run(run())


def test_the_least_loaded_broker_is_asked_first() -> None:
    """CLI-7: ready and idle, then ready, then unconnected, last those that just failed."""

    async def run() -> None:
        async with scripted_brokers(4) as brokers:
            client = client_of(brokers[0], reconnect_backoff_ms=60_000)
            await client.start()
            await client.ready(1)
            await client.ready(2)
            brokers[0].script[ApiKey.METADATA] = lambda _: SILENCE
            busy = client.send_now(1, MetadataRequest(topics=[]), 9, timeout_ms=9000)
            await brokers[3].stop()
            with pytest.raises(BrokerUnreachableError):
                await client.request(4, MetadataRequest(topics=[]))
            assert client.running.network.candidates() == [2, 1, 3, 4]
            await client.close()
            assert busy.exception() is not None

    asyncio.run(run())


def test_an_address_that_never_responds_is_told_early_and_given_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The first response is not waited for as long as a call may take."""
    monkeypatch.setattr(metadata_refresher, "FIRST_WORD_MS", 20)

    async def run() -> None:
        async with scripted_brokers() as (broker,):
            broker.script[ApiKey.METADATA] = lambda _: SILENCE
            client = client_of(broker, bootstrap_timeout_ms=400, default_api_timeout_ms=60_000)
            with pytest.raises(BarnabasError, match="within 400 ms"):
                await client.start()
            await client.close()
            assert f"no broker has responded yet, trying {broker.bootstrap}" in caplog.text

    asyncio.run(run())


def test_a_cluster_that_has_responded_once_may_take_as_long_as_a_call() -> None:
    """Brokers that are away for a while are not an address that is wrong."""

    async def run() -> None:
        async with scripted_brokers() as (broker,):
            client = client_of(broker, bootstrap_timeout_ms=100)
            await client.start()
            broker.script[ApiKey.METADATA] = lambda _: SILENCE
            with pytest.raises(BarnabasError, match="within 300 ms"):
                await client.refresh(timeout_ms=300)
            await client.close()

    asyncio.run(run())

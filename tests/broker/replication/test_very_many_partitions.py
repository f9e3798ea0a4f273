"""Fetches and produce requests of very many partitions: the loop goes on, the answers are whole."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from barnabas_broker.handlers import fetch as fetch_handler
from barnabas_broker.log.manager.departed_logs import DepartedLogs
from barnabas_broker.log.partition_log import PartitionLog
from barnabas_broker.network.heavy_work import SLICE
from barnabas_broker.replication.leader.delayed_produce import DelayedProduce, ProduceResult
from barnabas_broker.replication.replica_manager import PARTITIONS_PER_TURN
from barnabas_broker.server import Server
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages import create_topics, delete_topics, fetch, produce
from barnabas_protocol.records.record import Record, encode_batch
from tests.broker.broker_requests import with_broker
from tests.support.raw_client import RawClient

TOPIC = "many"
PARTITIONS = 6
BATCH = encode_batch([Record(0, 1, b"key", b"value")])


async def make_topic(client: RawClient) -> None:
    topic = create_topics.CreatableTopic(
        name=TOPIC, num_partitions=PARTITIONS, replication_factor=1
    )
    request = create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
    response = await client.call(ApiKey.CREATE_TOPICS, 5, request)
    assert response.topics[0].error_code == ErrorCode.NONE


def producing(partitions: list[int]) -> produce.ProduceRequest:
    data = [produce.PartitionProduceData(index=index, records=BATCH) for index in partitions]
    topics = [produce.TopicProduceData(name=TOPIC, partition_data=data)]
    return produce.ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=topics)


def fetching(
    count: int, *, max_wait_ms: int = 0, session: tuple[int, int] = (0, -1)
) -> fetch.FetchRequest:
    partitions = [
        fetch.FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1000)
        for index in range(count)
    ]
    topics = [fetch.FetchTopic(topic=TOPIC, partitions=partitions)] if count else []
    return fetch.FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        session_id=session[0],
        session_epoch=session[1],
        topics=topics,
    )


def test_a_fetch_of_very_many_partitions_is_read_in_slices(tmp_path: Path) -> None:
    """Attack: 200,000 partitions that do not exist held the loop up for a second."""

    async def test(server: Server, client: RawClient) -> None:
        await make_topic(client)
        await client.call(ApiKey.PRODUCE, 9, producing([1]))
        before = server.heavy_work.pause_count
        response = await client.call(ApiKey.FETCH, 12, fetching(3 * SLICE))
        (topic,) = response.responses
        codes = [one.error_code for one in topic.partitions]
        assert [one.partition_index for one in topic.partitions] == list(range(3 * SLICE))
        assert codes[:PARTITIONS] == [ErrorCode.NONE] * PARTITIONS
        assert set(codes[PARTITIONS:]) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert len(topic.partitions[1].records) == len(BATCH)
        assert server.heavy_work.pause_count - before >= 3
        # One that is asked for twice is answered once; more than a consumer has is refused.
        twice = fetching(2 * SLICE)
        twice.topics *= 2
        response = await client.call(ApiKey.FETCH, 12, twice)
        assert sum(len(topic.partitions) for topic in response.responses) == 2 * SLICE
        client.send(ApiKey.FETCH, 12, fetching(fetch_handler.PARTITIONS_MAX + 1))
        assert await client.is_closed_by_peer()

    with_broker(tmp_path, test)


@pytest.mark.parametrize("in_session", [False, True])
def test_a_fetch_of_many_partitions_waits_until_one_of_them_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_session: bool
) -> None:
    """Whichever it is; and nothing is left in the purgatory."""
    monkeypatch.setattr(fetch_handler, "AT_ONCE_MAX", PARTITIONS - 1)

    async def test(server: Server, client: RawClient) -> None:
        await make_topic(client)
        purgatory = server.data.replicas.fetch_purgatory
        request = fetching(PARTITIONS, max_wait_ms=60_000)
        if in_session:
            opened = await client.call(ApiKey.FETCH, 12, fetching(PARTITIONS, session=(0, 0)))
            session = (opened.session_id, 1)
            request = fetching(0, max_wait_ms=60_000, session=session)
        client.send(ApiKey.FETCH, 12, request)
        async with await RawClient.connect(server.port) as other, asyncio.timeout(20):
            while not purgatory.pending_count:
                await asyncio.sleep(0)
            await other.call(ApiKey.PRODUCE, 9, producing([PARTITIONS - 1]))
        response = await client.receive(ApiKey.FETCH, 12)
        found = {
            one.partition_index: len(one.records or b"") for one in response.responses[0].partitions
        }
        assert found[PARTITIONS - 1] == len(BATCH)
        assert set(found) == ({PARTITIONS - 1} if in_session else set(range(PARTITIONS)))
        assert purgatory.pending_count == purgatory.watched_count == 0

    with_broker(tmp_path, test)


def test_a_fetch_of_many_partitions_ends_when_its_time_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_handler, "AT_ONCE_MAX", PARTITIONS - 1)

    async def test(server: Server, client: RawClient) -> None:
        await make_topic(client)
        for max_wait_ms in (0, 200):
            request = fetching(PARTITIONS, max_wait_ms=max_wait_ms)
            response = await client.call(ApiKey.FETCH, 12, request)
            assert len(response.responses[0].partitions) == PARTITIONS
        assert server.data.replicas.fetch_purgatory.expired_count == 1

    with_broker(tmp_path, test)


def test_a_produce_request_of_very_many_partitions_is_appended_in_slices(tmp_path: Path) -> None:
    async def test(server: Server, client: RawClient) -> None:
        await make_topic(client)
        before = server.heavy_work.pause_count
        indexes = [number % (PARTITIONS + 1) for number in range(3 * SLICE)]
        first = client.send(ApiKey.PRODUCE, 9, producing(indexes))
        second = client.send(ApiKey.PRODUCE, 9, producing([0]))
        response = await client.receive(ApiKey.PRODUCE, 9)
        assert client.last_correlation_id == first
        results = response.responses[0].partition_responses
        assert [one.index for one in results] == indexes
        for partition in range(PARTITIONS):
            offsets = [one.base_offset for one in results if one.index == partition]
            assert offsets == list(range(len(offsets)))
        unknown = {one.error_code for one in results if one.index == PARTITIONS}
        assert unknown == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        response = await client.receive(ApiKey.PRODUCE, 9)
        assert client.last_correlation_id == second
        # What came behind it on the connection is behind it in the log.
        assert response.responses[0].partition_responses[0].base_offset == indexes.count(0)
        assert server.heavy_work.pause_count - before == 2

    with_broker(tmp_path, test)


def test_a_wait_for_very_many_partitions_looks_at_each_once_or_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each that moves has the request looked at again: all of it each time would be its square."""
    done: list[Any] = []
    results = [
        ProduceResult(TopicPartition(TOPIC, number), None, None, None) for number in range(99)
    ]
    delayed = DelayedProduce(results, results.copy(), -1, 1000, done.append)
    moved: set[int] = set()
    looks = 0

    def settle(result: ProduceResult, acks: int) -> bool:
        nonlocal looks
        looks += 1
        return result.topic_partition.partition in moved

    monkeypatch.setattr(ProduceResult, "settle", settle)
    for number in range(99):
        assert not delayed.try_complete()
        moved.add(number)
    assert delayed.try_complete()
    assert done == [results]
    assert looks <= 3 * 99


def test_a_topic_of_very_many_partitions_is_deleted_a_few_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is a rename: 4,500 of them held the loop for 0.12 s, and 10,000 fit in a request."""
    count, turn, deleted = 6 * PARTITIONS_PER_TURN, 0, dict[int, int]()
    delete = DepartedLogs.delete

    def counted(departed: DepartedLogs, log: PartitionLog) -> None:
        deleted[turn] = deleted.get(turn, 0) + 1
        delete(departed, log)

    async def test(server: Server, client: RawClient) -> None:
        nonlocal turn
        topic = create_topics.CreatableTopic(name=TOPIC, num_partitions=count, replication_factor=1)
        request = create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
        await client.call(ApiKey.CREATE_TOPICS, 5, request)
        monkeypatch.setattr(DepartedLogs, "delete", counted)
        deletion = delete_topics.DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=10_000)
        client.send(ApiKey.DELETE_TOPICS, 5, deletion)
        async with asyncio.timeout(20):
            while sum(deleted.values()) < count:
                turn += 1
                await asyncio.sleep(0)
        assert max(deleted.values()) <= PARTITIONS_PER_TURN
        assert (await client.receive(ApiKey.DELETE_TOPICS, 5)).responses[0].error_code == 0
        assert not [one for one in server.data.replicas.partitions if one.topic == TOPIC]

    with_broker(tmp_path, test)

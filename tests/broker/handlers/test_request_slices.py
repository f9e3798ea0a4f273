"""Requests of very many elements are carried out in slices, and answered as if they were not."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas_broker.handlers import metadata as metadata_handler
from barnabas_broker.handlers.request_slices import (
    SLICED,
    as_a_whole,
    in_slices,
    pieces,
    slicing_of,
)
from barnabas_broker.handlers.topic_creation import CREATIONS_MAX
from barnabas_broker.network.heavy_work import SLICE, ConnectionGoneError, HeavyWork
from barnabas_broker.server import Server
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages import (
    create_topics,
    delete_records,
    delete_topics,
    describe_configs,
    describe_topic_partitions,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    txn_offset_commit,
    write_txn_markers,
)
from barnabas_protocol.messages import offset_for_leader_epoch as epochs
from tests.broker.broker_requests import with_broker
from tests.support.raw_client import RawClient


def commit(*counts: int) -> offset_commit.OffsetCommitRequest:
    topics = [
        offset_commit.OffsetCommitRequestTopic(
            name=f"topic-{number}",
            partitions=[
                offset_commit.OffsetCommitRequestPartition(partition_index=index)
                for index in range(count)
            ],
        )
        for number, count in enumerate(counts)
    ]
    return offset_commit.OffsetCommitRequest(group_id="group", topics=topics)


def partitions_of(request: Any) -> list[tuple[str, int]]:
    return [
        (topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    ]


@pytest.mark.parametrize("counts", [(), (0,), (3,), (10,), (25,), (4, 0, 4, 4), (1,) * 30, (7, 40)])
def test_pieces_have_all_elements_once_and_in_order(counts: tuple[int, ...]) -> None:
    request = commit(*counts)
    found = [piece for piece, _ in pieces(request, ("topics", "partitions"), 10)]
    assert [one for piece in found for one in partitions_of(piece)] == partitions_of(request)
    assert {topic.name for piece in found for topic in piece.topics} == {
        topic.name for topic in request.topics
    }
    assert all(len(partitions_of(piece)) < 20 for piece in found)
    assert all(piece.group_id == "group" for piece in found)
    assert partitions_of(request) == partitions_of(commit(*counts))  # it is left as it was


def answer(request: Any) -> offset_commit.OffsetCommitResponse:
    return offset_commit.OffsetCommitResponse(
        topics=[
            offset_commit.OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    offset_commit.OffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=index % 3
                    )
                    for index, partition in enumerate(topic.partitions)
                ],
            )
            for topic in request.topics
        ]
    )


async def carried_out(request: Any, handle: Callable[[Any], Any]) -> tuple[Any, int]:
    """The response, and how often the loop went on meanwhile."""
    pauses = 0

    async def pause() -> None:
        nonlocal pauses
        pauses += 1
        await asyncio.sleep(0)

    slicing = slicing_of(ApiKey.OFFSET_COMMIT, request)
    assert slicing is not None
    whole = as_a_whole(slicing, request)
    response = await in_slices(slicing, handle, lambda piece, _: answer(piece), pause, *whole)
    return response, pauses


def test_the_parts_of_a_topic_are_one_topic_in_the_answer() -> None:
    request = commit(3 * SLICE, 2, SLICE)
    response, pauses = asyncio.run(carried_out(request, answer))
    assert [topic.name for topic in response.topics] == ["topic-0", "topic-1", "topic-2"]
    assert partitions_of(response) == partitions_of(request)
    assert pauses == 4


def test_a_slice_that_fails_is_answered_and_the_others_stand() -> None:
    seen = 0

    async def handle(piece: Any) -> Any:
        nonlocal seen
        seen += 1
        if seen == 2:
            raise RuntimeError("the second slice fails")
        return answer(piece)

    request = commit(3 * SLICE)
    response, _ = asyncio.run(carried_out(request, handle))
    assert partitions_of(response) == partitions_of(request)
    assert seen == 3


@pytest.mark.parametrize(
    ("topics", "code"),
    [
        ([("a", 1), ("b", 1)], None),
        ([("a", 1), ("a", 1)], ErrorCode.INVALID_REQUEST),
        ([("a", 6_000), ("b", 6_000)], ErrorCode.POLICY_VIOLATION),
    ],
)
def test_what_is_wrong_with_the_whole_is_not_lost_in_slices(
    topics: list[tuple[str, int]], code: ErrorCode | None
) -> None:
    """Kafka makes 10,000 partitions for one request, and no topic that it names twice."""
    request = create_topics.CreateTopicsRequest(
        topics=[
            create_topics.CreatableTopic(name=name, num_partitions=count, replication_factor=1)
            for name, count in topics
        ]
    )
    (slicing,) = SLICED[ApiKey.CREATE_TOPICS]
    refusal = slicing.refusal(request)
    assert (None if refusal is None else refusal.code) == code
    handled: list[Any] = []
    failures: list[Exception] = []

    async def pause() -> None: ...

    def failed(piece: Any, error: Exception) -> create_topics.CreateTopicsResponse:
        failures.append(error)
        return create_topics.CreateTopicsResponse()

    def handle(piece: Any) -> create_topics.CreateTopicsResponse:
        handled.append(piece)
        return create_topics.CreateTopicsResponse()

    whole = as_a_whole(slicing, request)
    asyncio.run(in_slices(slicing, handle, failed, pause, *whole))
    assert len(handled) == (code is None)
    assert [error.code for error in failures if isinstance(error, KafkaError)] == [
        one for one in (code,) if one is not None
    ]


def test_every_path_is_one_of_fields() -> None:
    """What is sliced by a name that the message does not have would not be sliced."""
    from barnabas_protocol import codec

    for key, slicings in SLICED.items():
        for slicing in slicings:
            for kind, path in (
                (codec.request_class(key), slicing.request),
                (codec.response_class(key), slicing.response),
            ):
                for name in path:
                    (field,) = [one for one in kind.__fields__ if one.name == name]
                    assert field.kind == "array"
                    kind = field.item


def test_of_all_who_pause_one_goes_on_in_a_turn() -> None:
    """A hundred connections with a slice each would hold the loop up for a hundred slices."""

    async def test() -> None:
        heavy = HeavyWork(lambda *_: asyncio.sleep(0), "REPLICATION")
        turns: list[int] = []
        turn = 0

        async def work() -> None:
            for _ in range(3):
                await heavy.pause()
                turns.append(turn)

        tasks = [asyncio.create_task(work()) for _ in range(4)]
        cancelled = asyncio.create_task(work())
        while not all(task.done() for task in tasks):
            turn += 1
            await asyncio.sleep(0)
            if turn == 2:
                cancelled.cancel()
        assert len(turns) == len(set(turns)) == 12

    asyncio.run(test())


async def make_topic(client: RawClient, name: str, partitions: int) -> None:
    topic = create_topics.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    request = create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
    response = await client.call(ApiKey.CREATE_TOPICS, 5, request)
    assert response.topics[0].error_code == ErrorCode.NONE


NAMES = [f"no-such-topic-{number:05d}" for number in range(3 * SLICE)]


def _metadata(_: int) -> metadata.MetadataRequest:
    topics = [metadata.MetadataRequestTopic(name=name) for name in NAMES]
    return metadata.MetadataRequest(topics=topics, allow_auto_topic_creation=False)


def _epochs(count: int) -> epochs.OffsetForLeaderEpochRequest:
    partitions = [
        epochs.OffsetForLeaderPartition(
            partition=index % count, current_leader_epoch=-1, leader_epoch=0
        )
        for index in range(3 * SLICE)
    ]
    topics = [epochs.OffsetForLeaderTopic(topic="known", partitions=partitions)]
    return epochs.OffsetForLeaderEpochRequest(replica_id=-1, topics=topics)


def _offsets(_: int) -> list_offsets.ListOffsetsRequest:
    partitions = [
        list_offsets.ListOffsetsPartition(partition_index=index, timestamp=-1)
        for index in range(3 * SLICE)
    ]
    topics = [list_offsets.ListOffsetsTopic(name="known", partitions=partitions)]
    return list_offsets.ListOffsetsRequest(topics=topics)


def _offsets_of_topics(_: int) -> list_offsets.ListOffsetsRequest:
    partitions = [
        list_offsets.ListOffsetsPartition(partition_index=index, timestamp=-1)
        for index in range(SLICE // 2)
    ]
    topics = [list_offsets.ListOffsetsTopic(name=name, partitions=partitions) for name in NAMES[:6]]
    return list_offsets.ListOffsetsRequest(topics=topics)


def _records_of_topics(_: int) -> delete_records.DeleteRecordsRequest:
    partitions = [
        delete_records.DeleteRecordsPartition(partition_index=index, offset=0)
        for index in range(SLICE // 2)
    ]
    topics = [
        delete_records.DeleteRecordsTopic(name=name, partitions=partitions) for name in NAMES[:6]
    ]
    return delete_records.DeleteRecordsRequest(topics=topics, timeout_ms=10_000)


def _create(_: int) -> create_topics.CreateTopicsRequest:
    topics = [
        create_topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        for name in NAMES
    ]
    return create_topics.CreateTopicsRequest(topics=topics, validate_only=True, timeout_ms=60_000)


def _delete(_: int) -> delete_topics.DeleteTopicsRequest:
    return delete_topics.DeleteTopicsRequest(topic_names=NAMES, timeout_ms=60_000)


def _configs(_: int) -> describe_configs.DescribeConfigsRequest:
    resources = [
        describe_configs.DescribeConfigsResource(
            resource_type=2, resource_name=name, configuration_keys=None
        )
        for name in NAMES
    ]
    return describe_configs.DescribeConfigsRequest(resources=resources)


def _fetched(_: int) -> offset_fetch.OffsetFetchRequest:
    groups = [offset_fetch.OffsetFetchRequestGroup(group_id=name, topics=None) for name in NAMES]
    return offset_fetch.OffsetFetchRequest(groups=groups)


def _offsets_in_transaction(_: int) -> txn_offset_commit.TxnOffsetCommitRequest:
    partitions = [
        txn_offset_commit.TxnOffsetCommitRequestPartition(partition_index=index)
        for index in range(3 * SLICE)
    ]
    topics = [txn_offset_commit.TxnOffsetCommitRequestTopic(name="known", partitions=partitions)]
    return txn_offset_commit.TxnOffsetCommitRequest(
        transactional_id="tx", group_id="group", topics=topics
    )


def _markers(_: int) -> write_txn_markers.WriteTxnMarkersRequest:
    topics = [write_txn_markers.WritableTxnMarkerTopic(name="unknown", partition_indexes=[0])]
    return write_txn_markers.WriteTxnMarkersRequest(
        markers=[
            write_txn_markers.WritableTxnMarker(producer_id=number, topics=topics)
            for number in range(3 * SLICE)
        ]
    )


@pytest.mark.parametrize(
    ("key", "version", "request_of", "array"),
    [
        (ApiKey.TXN_OFFSET_COMMIT, 3, _offsets_in_transaction, "topics"),
        (ApiKey.WRITE_TXN_MARKERS, 1, _markers, "markers"),
        (ApiKey.METADATA, 12, _metadata, "topics"),
        (ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, _epochs, "topics"),
        (ApiKey.LIST_OFFSETS, 6, _offsets, "topics"),
        (ApiKey.LIST_OFFSETS, 6, _offsets_of_topics, "topics"),
        (ApiKey.DELETE_RECORDS, 2, _records_of_topics, "topics"),
        (ApiKey.CREATE_TOPICS, 5, _create, "topics"),
        (ApiKey.DELETE_TOPICS, 5, _delete, "responses"),
        (ApiKey.DESCRIBE_CONFIGS, 4, _configs, "results"),
        (ApiKey.OFFSET_FETCH, 8, _fetched, "groups"),
    ],
)
def test_the_loop_goes_on_while_very_many_elements_are_answered(
    tmp_path: Path, key: ApiKey, version: int, request_of: Callable[[int], Any], array: str
) -> None:
    """Attack: each held the loop up for tens to hundreds of milliseconds."""

    async def test(server: Server, client: RawClient) -> None:
        await make_topic(client, "known", 2)
        before = server.heavy_work.pause_count
        response = await client.call(key, version, request_of(2))
        found = getattr(response, array)
        count = sum(len(getattr(one, "partitions", ())) or 1 for one in found)
        assert count == 3 * SLICE
        assert server.heavy_work.pause_count - before >= 2

    with_broker(tmp_path, test)


def test_a_topic_that_is_asked_for_very_often_is_described_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attack: 49,000 times the name of a topic of 300 partitions held the loop up for minutes."""
    described: list[str] = []
    real = metadata_handler._without_partitions

    def note(services: Any, in_flight: Any, request: Any, topic: Any) -> Any:
        described.append(topic.name)
        return real(services, in_flight, request, topic)

    monkeypatch.setattr(metadata_handler, "_without_partitions", note)

    async def test(server: Server, client: RawClient) -> None:
        await make_topic(client, "known", 2)
        for count in (2, 20, 3 * SLICE):
            described.clear()
            topics = [metadata.MetadataRequestTopic(name="known")] * count
            response = await client.call(
                ApiKey.METADATA, 12, metadata.MetadataRequest(topics=topics)
            )
            assert [topic.name for topic in response.topics] == described == ["known"]
            assert len(response.topics[0].partitions) == 2

    with_broker(tmp_path, test)


def test_a_large_request_that_fails_as_a_whole_is_answered(tmp_path: Path) -> None:
    """The error is in every element, and the frame is made where the loop is not held up."""

    async def test(server: Server, client: RawClient) -> None:
        topics = [metadata.MetadataRequestTopic(name=None)] * (3 * SLICE)
        response = await client.call(ApiKey.METADATA, 12, metadata.MetadataRequest(topics=topics))
        codes = {topic.error_code for topic in response.topics}
        assert (len(response.topics), codes) == (3 * SLICE, {ErrorCode.INVALID_REQUEST})
        assert server.heavy_work.run_count == 3  # read, answered and written

    with_broker(tmp_path, test)


def test_what_nobody_waits_for_any_more_is_left_undone() -> None:
    """Attack: large requests on connections that end at once would pile up."""

    async def test() -> None:
        heavy = HeavyWork(lambda *_: asyncio.sleep(0), "REPLICATION")
        session = SimpleNamespace(is_closed=False)
        in_flight: Any = SimpleNamespace(session=session)
        seen = 0
        with pytest.raises(ConnectionGoneError):
            async for _ in heavy.each(in_flight, range(3 * SLICE)):
                seen += 1
                session.is_closed = seen > SLICE + 1
        assert seen == 2 * SLICE

    asyncio.run(test())


def test_names_that_a_request_invents_are_not_all_made_at_once(tmp_path: Path) -> None:
    """Attack: a request with 49,000 new names began as many requests to the controller."""

    async def test(server: Server, client: RawClient) -> None:
        topics = [metadata.MetadataRequestTopic(name=name) for name in NAMES]
        request = metadata.MetadataRequest(topics=topics, allow_auto_topic_creation=True)
        before = asyncio.all_tasks()
        client.send(ApiKey.METADATA, 12, request)
        most = 0
        async with asyncio.timeout(20):
            receiving = asyncio.create_task(client.receive(ApiKey.METADATA, 12))
            while not receiving.done():
                most = max(most, len(asyncio.all_tasks() - before))
                await asyncio.sleep(0)
        codes = {topic.error_code for topic in receiving.result().topics}
        assert codes == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert most < CREATIONS_MAX + 20
        while len(server.data.replicas.image.topics.by_name) < CREATIONS_MAX:
            await asyncio.sleep(0.01)

    with_broker(tmp_path, test)


def test_invented_names_take_no_partition_of_a_page_but_end_it(tmp_path: Path) -> None:
    """Kafka counts partitions only; so many names that nobody has fill a page of ours, too."""

    async def test(server: Server, client: RawClient) -> None:
        await make_topic(client, "z", 2)
        limit = server.config.max_request_partition_size_limit
        for absent, expected in ((3, [0]), (limit, [])):
            names = [*(f"absent-{number:05d}" for number in range(absent)), "z"]
            topics = [describe_topic_partitions.TopicRequest(name=name) for name in names]
            request = describe_topic_partitions.DescribeTopicPartitionsRequest(
                topics=topics, response_partition_limit=1
            )
            answer = await client.call(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, request)
            found = [one.partition_index for topic in answer.topics for one in topic.partitions]
            assert found == expected
            assert answer.next_cursor.topic_name == "z"
            assert answer.next_cursor.partition_index == len(expected)

    with_broker(tmp_path, test)

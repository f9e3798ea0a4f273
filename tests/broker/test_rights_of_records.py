"""Rights to read and write records: on the hot path, and against ways around them."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from barnabas_broker.security.principal import Principal
from barnabas_broker.server import Server
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import ZERO_UUID
from barnabas_protocol.messages import fetch, produce
from tests.broker.broker_requests import (
    TOPIC,
    batch,
    fetch_request,
    produce_request,
    produced,
    topic_id_of,
)
from tests.broker.share_member import (
    ShareMember,
    acquired_of,
    append,
    configure,
    coordinator_of,
    create_topic,
    error_of,
)
from tests.support.in_process_broker import eventually, running_broker
from tests.support.known_principals import BROKERS, connected_as
from tests.support.memory_authorizer import Given, MemoryAuthorizer, to_cluster
from tests.support.raw_client import RawClient
from tests.support.transactional_client import TransactionalClient

READ, WRITE = AclOperation.READ, AclOperation.WRITE
TOPICS, GROUPS = AclResourceType.TOPIC, AclResourceType.GROUP
REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
MALLORY = Principal("User", "mallory")


def with_authorizer(directory: Path, test: Any, authorizer: MemoryAuthorizer | None = None) -> None:
    """Run against a broker with the topic, everything allowed at first."""
    known = MemoryAuthorizer() if authorizer is None else authorizer
    known.allow_all()

    async def run() -> None:
        async with (
            running_broker(directory, known) as server,
            await RawClient.connect(server.port) as client,
        ):
            topic_id = await topic_id_of(client)
            await test(server, known, client, topic_id)

    asyncio.run(run())


async def fetched(client: RawClient, version: int, request: fetch.FetchRequest) -> Any:
    """The first partition of the response."""
    response = await client.call(ApiKey.FETCH, version, request)
    return response.responses[0].partitions[0]


@contextmanager
def files_called() -> Iterator[set[str]]:
    """Collects the files whose functions are called."""
    files: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            files.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield files
    finally:
        sys.setprofile(before)


def of_rights(files: set[str]) -> set[str]:
    """Those that ask for rights or decide about them."""
    names = {Path(file).name for file in files if "barnabas_broker" in file}
    rights = {"authorization.py", "produce_rights.py", "fetch_rights.py", "allowed_names.py"}
    return names & rights


def test_without_an_authorizer_no_right_is_asked_for(tmp_path: Path) -> None:
    """SEC-115: produce and fetch run through none of the code that asks for rights."""

    async def exchange(authorizer: MemoryAuthorizer | None) -> set[str]:
        directory = tmp_path / ("plain" if authorizer is None else "secure")
        async with (
            running_broker(directory, authorizer) as server,
            await RawClient.connect(server.port) as client,
        ):
            await topic_id_of(client)
            for _ in range(2):  # modules are loaded at the first request
                with files_called() as files:
                    result: Any = await produced(client, 9, produce_request(batch(b"x")))
                    assert result.error_code == 0
                    assert (await fetched(client, 12, fetch_request(0))).records
            return of_rights(files)

    assert asyncio.run(exchange(None)) == set()
    authorizer = MemoryAuthorizer()
    authorizer.allow_all()
    # Else the test would see nothing anyway.
    assert len(asyncio.run(exchange(authorizer))) == 4


def test_a_connection_asks_once_for_what_it_does_all_the_time(tmp_path: Path) -> None:
    """SEC-44: until the authorizer decides by something else."""

    async def test(_: Server, authorizer: MemoryAuthorizer, client: RawClient, __: bytes) -> None:
        authorizer.grant(Given(READ, TOPICS, TOPIC), Given(WRITE, TOPICS, TOPIC))
        for _round in range(3):
            await produced(client, 9, produce_request(batch(b"x")))
            await fetched(client, 12, fetch_request(0))
        assert authorizer.asked == [Given(WRITE, TOPICS, TOPIC), Given(READ, TOPICS, TOPIC)]
        authorizer.grant()
        result: Any = await produced(client, 9, produce_request(batch(b"x")))
        assert result.error_code == REFUSED
        assert (await fetched(client, 12, fetch_request(0))).error_code == REFUSED

    with_authorizer(tmp_path, test)


def test_produce_serves_what_it_may_in_the_order_of_the_request(tmp_path: Path) -> None:
    """SEC-46, key 0: refused, unknown and written topics keep their places; nothing is written."""

    async def test(
        server: Server, authorizer: MemoryAuthorizer, client: RawClient, topic_id: bytes
    ) -> None:
        await create_topic(client, "secret", 2)
        authorizer.allow_all(denied=(Given(WRITE, TOPICS, "secret"), Given(WRITE, TOPICS, "no")))
        names = ["secret", TOPIC, "no", "absent", "secret"]
        request = produce.ProduceRequest(
            acks=-1,
            timeout_ms=5_000,
            topic_data=[
                produce.TopicProduceData(
                    name=name,
                    partition_data=[produce.PartitionProduceData(index=0, records=batch(b"x"))],
                )
                for name in names
            ],
        )
        response = await client.call(ApiKey.PRODUCE, 9, request)
        assert [
            (topic.name, topic.partition_responses[0].error_code) for topic in response.responses
        ] == [
            ("secret", REFUSED),
            (TOPIC, 0),
            ("no", REFUSED),
            ("absent", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("secret", REFUSED),
        ]
        for one in server.replicas.partitions.values():
            assert one.log.log_end_offset == (1 if one.topic_partition.topic == TOPIC else 0)

    with_authorizer(tmp_path, test)


@pytest.mark.parametrize("acks", [0, 1])
def test_a_refused_produce_without_a_response_ends_the_connection(
    tmp_path: Path, acks: int
) -> None:
    """REQ-2: with acks=0 a response would be that of the next request."""

    async def test(_: Server, authorizer: MemoryAuthorizer, client: RawClient, __: bytes) -> None:
        authorizer.grant()
        client.send(ApiKey.PRODUCE, 9, produce_request(batch(b"x"), acks=acks))
        if acks:
            response = await client.receive(ApiKey.PRODUCE, 9)
            assert response.responses[0].partition_responses[0].error_code == REFUSED
        else:
            assert await client.is_closed_by_peer()

    with_authorizer(tmp_path, test)


@pytest.mark.parametrize("transactional_id", [None, "somebody-else-s"])
@pytest.mark.parametrize("acks", [0, -1])
def test_a_transactional_batch_needs_an_id_that_the_client_may_use(
    tmp_path: Path, transactional_id: str | None, acks: int
) -> None:
    """CVE-2018-17196: a request without an id, or with another's, is no way past the rights."""

    async def test(
        server: Server, authorizer: MemoryAuthorizer, client: RawClient, _: bytes
    ) -> None:
        authorizer.grant(
            Given(WRITE, TOPICS), Given(WRITE, AclResourceType.TRANSACTIONAL_ID, "own")
        )
        request = produce_request(
            batch(b"x", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True),
            acks=acks,
        )
        request.transactional_id = transactional_id
        client.send(ApiKey.PRODUCE, 9, request)
        if acks:
            response = await client.receive(ApiKey.PRODUCE, 9)
            code = response.responses[0].partition_responses[0].error_code
            assert code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        else:
            assert await client.is_closed_by_peer()
        for partition in server.replicas.partitions.values():
            if partition.topic_partition.topic == TOPIC:
                assert partition.log.log_end_offset == 0

    with_authorizer(tmp_path, test)


def test_a_transaction_gets_no_partition_of_a_topic_that_is_refused(tmp_path: Path) -> None:
    """SEC-46: with transactions of version 2 a produce adds partitions, those it may write only."""

    async def test(_: Server, authorizer: MemoryAuthorizer, client: RawClient, __: bytes) -> None:
        producer = TransactionalClient(client, "tx")
        await producer.find_coordinator()
        await producer.init()
        authorizer.allow_all(denied=(Given(WRITE, TOPICS, TOPIC),))
        assert await producer.send(TOPIC, b"x") == REFUSED
        authorizer.allow_all()
        # Nothing is open, so there is nothing to end.
        assert await producer.end(commits=True) == ErrorCode.INVALID_TXN_STATE

    with_authorizer(tmp_path, test)


def test_a_session_reads_nothing_of_what_was_taken_away(tmp_path: Path) -> None:
    """SEC-46, key 1: a fetch session keeps its partitions, and no rights."""

    async def test(
        _: Server, authorizer: MemoryAuthorizer, client: RawClient, topic_id: bytes
    ) -> None:
        await produced(client, 9, produce_request(batch(b"x")))
        request = fetch_request(0, topic_id, session=(0, 0))
        opened = await client.call(ApiKey.FETCH, 13, request)
        assert opened.session_id
        authorizer.grant()
        for epoch in (1, 2):
            request = fetch.FetchRequest(session_id=opened.session_id, session_epoch=epoch)
            response = await client.call(ApiKey.FETCH, 13, request)
            (data,) = response.responses[0].partitions
            assert (data.error_code, bytes(data.records or b"")) == (REFUSED, b"")
            assert (data.high_watermark, data.log_start_offset) == (-1, -1)
        authorizer.allow_all()
        request = fetch.FetchRequest(session_id=opened.session_id, session_epoch=3)
        response = await client.call(ApiKey.FETCH, 13, request)
        assert response.responses[0].partitions[0].error_code == 0

    with_authorizer(tmp_path, test)


def test_another_s_session_gives_nobody_rights(tmp_path: Path) -> None:
    """SEC-46, key 1: whoever knows the id of a session reads what he may himself."""

    async def test(
        server: Server, authorizer: MemoryAuthorizer, client: RawClient, topic_id: bytes
    ) -> None:
        await produced(client, 9, produce_request(batch(b"x")))
        opened = await client.call(ApiKey.FETCH, 13, fetch_request(0, topic_id, session=(0, 0)))
        async with connected_as(server, MALLORY) as other:
            authorizer.grant()
            request = fetch.FetchRequest(session_id=opened.session_id, session_epoch=1)
            response = await other.call(ApiKey.FETCH, 13, request)
            assert response.responses[0].partitions[0].error_code == REFUSED
            assert {principal for principal, _ in authorizer.seen} >= {MALLORY}

    with_authorizer(tmp_path, test)


@pytest.mark.parametrize("is_relevant", [True, False], ids=["its own", "another's"])
def test_a_fetch_that_waits_gets_nothing_once_its_right_is_gone(
    tmp_path: Path, is_relevant: bool
) -> None:
    """SEC-46, key 1: it may wait for as long as its client likes."""

    async def test(
        _: Server, authorizer: MemoryAuthorizer, client: RawClient, topic_id: bytes
    ) -> None:
        waits = fetch_request(0, topic_id, max_wait_ms=60_000)
        client.send(ApiKey.FETCH, 13, waits)
        lost = READ if is_relevant else AclOperation.DELETE
        async with await RawClient.connect(_.port) as writer:
            await topic_id_of(writer)  # the fetch is parked by now
            authorizer.allow_all(denied=(Given(lost, TOPICS, TOPIC),))
            await produced(writer, 9, produce_request(batch(b"x")))
        response = await client.receive(ApiKey.FETCH, 13)
        (data,) = response.responses[0].partitions
        if is_relevant:
            assert (data.error_code, bytes(data.records or b"")) == (REFUSED, b"")
        else:
            assert data.error_code == 0
            assert data.records

    with_authorizer(tmp_path, test)


def test_refused_partitions_do_not_end_the_wait_for_others(tmp_path: Path) -> None:
    """SEC-46, key 1: a fetch of refused partitions alone responds at once, as in Apache Kafka."""

    async def test(
        server: Server, authorizer: MemoryAuthorizer, client: RawClient, _: bytes
    ) -> None:
        await create_topic(client, "secret")
        authorizer.allow_all(denied=(Given(READ, TOPICS, "secret"),))
        request = fetch_request(0, max_wait_ms=60_000)
        secret = fetch.FetchTopic(topic="secret", partitions=request.topics[0].partitions)
        request.topics = [secret]
        assert (await fetched(client, 12, request)).error_code == REFUSED
        request = fetch_request(0, max_wait_ms=60_000)
        request.topics = [secret, *request.topics]
        client.send(ApiKey.FETCH, 12, request)
        async with await RawClient.connect(server.port) as writer:
            await produced(writer, 9, produce_request(batch(b"x")))
        response = await client.receive(ApiKey.FETCH, 12)
        codes = {topic.topic: topic.partitions[0].error_code for topic in response.responses}
        assert codes == {"secret": REFUSED, TOPIC: 0}

    with_authorizer(tmp_path, test)


def test_brokers_read_what_others_lead(tmp_path: Path) -> None:
    """SEC-60: for lag; by their listener and principal, and nobody else. They write nothing."""
    broker = Principal("User", "broker-7")

    async def run() -> None:
        authorizer = MemoryAuthorizer()
        authorizer.allow_all()
        async with (
            running_broker(tmp_path, authorizer, barnabas_broker_principals=str(broker)) as server,
            await RawClient.connect(server.port) as client,
        ):
            await topic_id_of(client)
            authorizer.grant()
            for principal, listener, code in (
                (broker, BROKERS, 0),
                (broker, "PLAINTEXT", REFUSED),
                (MALLORY, BROKERS, REFUSED),
            ):
                async with connected_as(server, principal, listener) as other:
                    result: Any = await produced(other, 9, produce_request(batch(b"x")))
                    assert result.error_code == REFUSED
                    assert (await fetched(other, 12, fetch_request(0))).error_code == code

    asyncio.run(run())


@pytest.mark.parametrize("version", [12, 13, 17])
def test_a_client_that_fetches_as_a_follower_is_refused(tmp_path: Path, version: int) -> None:
    """CVE-2018-1288: READ is no right to follow, and CLUSTER_ACTION makes nobody a broker."""

    async def test(
        server: Server, authorizer: MemoryAuthorizer, client: RawClient, topic_id: bytes
    ) -> None:
        await produced(client, 9, produce_request(batch(b"x")))
        request = fetch_request(0, topic_id)
        request.replica_id = 5
        request.replica_state = fetch.ReplicaState(replica_id=5, replica_epoch=1)
        for listener in ("PLAINTEXT", BROKERS):
            async with connected_as(server, MALLORY, listener) as other:
                authorizer.grant(Given(READ, TOPICS))
                response = await other.call(ApiKey.FETCH, version, request)
                assert (response.error_code, response.session_id) == (0, 0)
                (data,) = response.responses[0].partitions
                assert (data.error_code, bytes(data.records or b"")) == (REFUSED, b"")
                authorizer.grant(to_cluster(AclOperation.CLUSTER_ACTION))
                response = await other.call(ApiKey.FETCH, version, request)
                assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                assert response.responses == []

    with_authorizer(tmp_path, test)


def test_an_id_that_no_topic_has_is_unknown_and_not_refused(tmp_path: Path) -> None:
    """SEC-46: ids are no secret; 100 as in Apache Kafka."""

    async def test(_: Server, authorizer: MemoryAuthorizer, client: RawClient, __: bytes) -> None:
        authorizer.grant()
        unknown = bytes(15) + b"x"
        data = await fetched(client, 13, fetch_request(0, unknown))
        assert data.error_code == ErrorCode.UNKNOWN_TOPIC_ID
        result: Any = await produced(client, 13, produce_request(batch(b"x"), unknown))
        assert result.error_code == ErrorCode.UNKNOWN_TOPIC_ID
        result = await produced(client, 13, produce_request(batch(b"x"), ZERO_UUID))
        assert result.error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert authorizer.asked == []

    with_authorizer(tmp_path, test)


def test_share_sessions_give_no_rights_either(tmp_path: Path) -> None:
    """SEC-46, keys 78 and 79: what was acquired is neither read again nor acknowledged."""

    async def test(
        server: Server, authorizer: MemoryAuthorizer, client: RawClient, _: bytes
    ) -> None:
        topic_id = await create_topic(client, "work")
        await coordinator_of(client, "queue")
        member = ShareMember(client, "queue", "A" * 22, topic_id)
        await configure(client, "queue", "share.auto.offset.reset", "earliest")
        await append(client, "work", [b"one", b"two"])
        await member.join("work")

        async def has_acquired() -> bool:
            return bool(acquired_of(await member.fetch(0)))

        await eventually(has_acquired)
        authorizer.grant(Given(READ, GROUPS, "queue"))
        assert error_of(await member.acknowledge((0, 0, [1]))) == REFUSED
        await with_others(authorizer, server, lambda other: append(other, "work", [b"three"]))
        response = await member.fetch(acknowledge={0: [(0, 0, [1])]})
        (data,) = response.responses[0].partitions
        assert (data.error_code, data.acknowledge_error_code) == (REFUSED, REFUSED)
        assert bytes(data.records) == b""
        assert data.acquired_records == []
        authorizer.allow_all()
        # Nothing has been taken from it meanwhile, and nothing given.
        assert error_of(await member.acknowledge((0, 1, [1]))) == 0

    with_authorizer(tmp_path, test)


async def with_others(authorizer: MemoryAuthorizer, server: Server, work: Any) -> None:
    """Have somebody do something for whom all is allowed, and go back to the rights there were."""
    before = tuple(authorizer.allowed)
    authorizer.allow_all()
    async with await RawClient.connect(server.port) as other:
        await work(other)
    authorizer.grant(*before)


def test_a_share_fetch_that_waits_acquires_nothing_once_its_right_is_gone(tmp_path: Path) -> None:
    """SEC-46, key 78: rights that change meanwhile end its wait with nothing."""

    async def test(
        server: Server, authorizer: MemoryAuthorizer, client: RawClient, _: bytes
    ) -> None:
        topic_id = await create_topic(client, "work")
        await coordinator_of(client, "queue")
        await configure(client, "queue", "share.auto.offset.reset", "earliest")
        member = ShareMember(client, "queue", "A" * 22, topic_id)
        await member.join("work")
        await member.fetch(0, max_wait_ms=0)

        async def is_active() -> bool:
            await with_others(authorizer, server, lambda other: append(other, "work", [b"x"]))
            authorizer.allow_all()
            return bool(acquired_of(await member.fetch(max_wait_ms=0)))

        await eventually(is_active)
        waits = asyncio.create_task(member.fetch(max_wait_ms=60_000))
        async with await RawClient.connect(server.port) as writer:
            await topic_id_of(writer)  # the fetch is parked by now
            authorizer.grant(Given(READ, GROUPS, "queue"), Given(WRITE, TOPICS, "work"))
            await append(writer, "work", [b"secret"])
        assert acquired_of(await waits) == []

    with_authorizer(tmp_path, test)


MANY = 700


@pytest.mark.parametrize("denied", ["", "t-699"])
def test_very_many_topics_are_judged_in_slices(tmp_path: Path, denied: str) -> None:
    """A check takes some microseconds: nobody holds the loop up by naming thousands of topics."""

    async def test(
        server: Server, authorizer: MemoryAuthorizer, client: RawClient, _: bytes
    ) -> None:
        names = [TOPIC, *(f"t-{index}" for index in range(MANY))]
        rights = (Given(WRITE, TOPICS, denied), Given(READ, TOPICS, denied)) if denied else ()
        authorizer.allow_all(denied=rights)
        request = produce.ProduceRequest(
            acks=-1,
            timeout_ms=5_000,
            topic_data=[
                produce.TopicProduceData(
                    name=name,
                    partition_data=[produce.PartitionProduceData(index=0, records=batch(b"x"))],
                )
                for name in names
            ],
        )
        pauses = server.heavy_work.pause_count
        response = await client.call(ApiKey.PRODUCE, 9, request)
        # One before the second slice of rights, one before the second slice of appends.
        assert server.heavy_work.pause_count == pauses + 2
        produced_codes = {
            topic.name: topic.partition_responses[0].error_code for topic in response.responses
        }
        asked = fetch_request(0)
        asked.topics = [
            fetch.FetchTopic(topic=name, partitions=asked.topics[0].partitions) for name in names
        ]
        response = await client.call(ApiKey.FETCH, 12, asked)
        fetched_codes = {
            topic.topic: topic.partitions[0].error_code for topic in response.responses
        }
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        expected = {name: unknown if name != TOPIC else 0 for name in names}
        if denied:
            expected[denied] = REFUSED
        assert produced_codes == fetched_codes == expected

    with_authorizer(tmp_path, test)

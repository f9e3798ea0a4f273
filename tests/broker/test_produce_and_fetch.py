"""Produce and Fetch through a whole broker, in every version."""

from pathlib import Path

import pytest

from barnabas_broker.server import Server
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages import fetch, list_offsets
from barnabas_protocol.records.record import decode_records
from tests.broker.broker_requests import (
    TOPIC,
    batch,
    fetch_request,
    produce_request,
    produced,
    topic_id_of,
    with_broker,
)
from tests.support.in_process_broker import eventually
from tests.support.raw_client import RawClient


@pytest.mark.parametrize("acks", [-1, 1])
def test_what_is_produced_is_fetched_in_every_version(tmp_path: Path, acks: int) -> None:
    """REQ-1, REQ-2, SEG-5: each Produce version against each Fetch version."""

    async def test(server: Server, client: RawClient) -> None:
        topic_id = await topic_id_of(client)
        offset = 0
        for version in range(3, 14):
            request = produce_request(batch(b"v%d" % version), topic_id, acks)
            result = await produced(client, version, request)
            assert (result.error_code, result.base_offset) == (0, offset)
            offset += 1
        for version in range(4, 18):
            response = await client.call(ApiKey.FETCH, version, fetch_request(0, topic_id))
            (partition,) = response.responses[0].partitions
            assert partition.error_code == 0
            assert partition.high_watermark == offset
            values, position = [], 0
            data = bytes(partition.records)
            while position < len(data):
                values += [record.value for record in decode_records(data, position)]
                position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
            assert values == [b"v%d" % version for version in range(3, 14)]

    with_broker(tmp_path, test)


def test_pipelined_requests_are_answered_in_order(tmp_path: Path) -> None:
    """NET-7: a parked fetch does not let later answers overtake it."""

    async def test(server: Server, client: RawClient) -> None:
        topic_id = await topic_id_of(client)
        waiting = client.send(ApiKey.FETCH, 13, fetch_request(0, topic_id, max_wait_ms=10_000))
        sent = client.send(ApiKey.PRODUCE, 9, produce_request(batch(b"x")))
        response = await client.receive(ApiKey.FETCH, 13)
        assert client.last_correlation_id == waiting
        assert len(response.responses[0].partitions[0].records) > 0
        await client.receive(ApiKey.PRODUCE, 9)
        assert client.last_correlation_id == sent

    with_broker(tmp_path, test)


def test_requests_in_flight_on_a_connection_are_bounded_as_configured(tmp_path: Path) -> None:
    """NET-7: with one in flight, the produce behind a parked fetch waits and cannot wake it."""

    async def test(server: Server, client: RawClient) -> None:
        topic_id = await topic_id_of(client)
        client.send(ApiKey.FETCH, 13, fetch_request(0, topic_id, max_wait_ms=300))
        client.send(ApiKey.PRODUCE, 9, produce_request(batch(b"x")))
        response = await client.receive(ApiKey.FETCH, 13)
        assert all(len(p.records or b"") == 0 for t in response.responses for p in t.partitions)
        await client.receive(ApiKey.PRODUCE, 9)

    with_broker(tmp_path, test, barnabas_max_requests_per_connection="1")


def test_fetch_waits_for_data_and_wakes_by_it(tmp_path: Path) -> None:
    """REQ-5, REQ-6: nothing to read parks the fetch; an append by another wakes it."""

    async def test(server: Server, client: RawClient) -> None:
        await topic_id_of(client)
        client.send(ApiKey.FETCH, 11, fetch_request(0, max_wait_ms=15_000))

        async def is_parked() -> bool:
            return server.data.fetch_purgatory.pending_count == 1

        await eventually(is_parked)
        async with await RawClient.connect(server.port) as other:
            await produced(other, 9, produce_request(batch(b"wake")))
        response = await client.receive(ApiKey.FETCH, 11)
        assert len(response.responses[0].partitions[0].records) > 0

    with_broker(tmp_path, test)


def test_fetch_of_a_closed_connection_leaves_the_purgatory(tmp_path: Path) -> None:
    """REQ-12: closing a connection frees what it parked."""

    async def test(server: Server, client: RawClient) -> None:
        await topic_id_of(client)
        async with await RawClient.connect(server.port) as other:
            other.send(ApiKey.FETCH, 11, fetch_request(0, max_wait_ms=1_000_000))

            async def is_parked() -> bool:
                return server.data.fetch_purgatory.pending_count == 1

            await eventually(is_parked)

        async def is_gone() -> bool:
            return server.data.fetch_purgatory.pending_count == 0

        await eventually(is_gone)

    with_broker(tmp_path, test)


def test_sessions_answer_only_what_is_new(tmp_path: Path) -> None:
    """REQ-9: an incremental fetch without news has no partitions; with news just that one."""

    async def test(server: Server, client: RawClient) -> None:
        topic_id = await topic_id_of(client)
        response = await client.call(ApiKey.FETCH, 13, fetch_request(0, topic_id, session=(0, 0)))
        session_id = response.session_id
        assert session_id > 0
        again = fetch.FetchRequest(session_id=session_id, session_epoch=1, max_bytes=1 << 20)
        assert (await client.call(ApiKey.FETCH, 13, again)).responses == []
        await produced(client, 9, produce_request(batch(b"new")))
        again.session_epoch = 2
        response = await client.call(ApiKey.FETCH, 13, again)
        assert len(response.responses[0].partitions[0].records) > 0
        again.session_epoch = 9
        response = await client.call(ApiKey.FETCH, 13, again)
        assert response.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH

    with_broker(tmp_path, test)


def test_first_batch_comes_whole_even_above_the_limits(tmp_path: Path) -> None:
    """KIP-74, CON-12: or the consumer would hang."""

    async def test(server: Server, client: RawClient) -> None:
        await topic_id_of(client)
        await produced(client, 9, produce_request(batch(b"x" * 50_000)))
        response = await client.call(ApiKey.FETCH, 11, fetch_request(0, max_bytes=10))
        assert len(response.responses[0].partitions[0].records) > 50_000

    with_broker(tmp_path, test)


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (batch(b"x")[:-1] + b"\xff", ErrorCode.CORRUPT_MESSAGE),
        (batch(b"x") + batch(b"y"), ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        (batch(b"x" * 2_000_000), ErrorCode.MESSAGE_TOO_LARGE),
        (
            batch(b"x", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True),
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
    ],
    ids=["crc", "two batches", "nothing", "too large", "transaction of nobody"],
)
def test_bad_batches_are_refused_and_nothing_is_appended(
    tmp_path: Path, records: bytes, code: ErrorCode
) -> None:
    """LOG-4, LOG-5: a clear code, and the log end offset stays."""

    async def test(server: Server, client: RawClient) -> None:
        await topic_id_of(client)
        result = await produced(client, 9, produce_request(records))
        assert result.error_code == code
        assert (await produced(client, 9, produce_request(batch(b"ok")))).base_offset == 0

    with_broker(tmp_path, test)


def test_unknown_partition_and_bad_acks_have_their_codes(tmp_path: Path) -> None:
    """REQ-1, LOG-3."""

    async def test(server: Server, client: RawClient) -> None:
        await topic_id_of(client)
        unknown = await produced(client, 9, produce_request(batch(b"x"), partition=7))
        assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        unknown_id = await produced(client, 13, produce_request(batch(b"x"), b"?" * 16))
        assert unknown_id.error_code == ErrorCode.UNKNOWN_TOPIC_ID
        bad_acks = await produced(client, 9, produce_request(batch(b"x"), acks=7))
        assert bad_acks.error_code == ErrorCode.INVALID_REQUIRED_ACKS

    with_broker(tmp_path, test)


def test_acks_0_has_no_answer_and_an_error_closes_the_connection(tmp_path: Path) -> None:
    """REQ-2: the client then refreshes its metadata."""

    async def test(server: Server, client: RawClient) -> None:
        await topic_id_of(client)
        client.send(ApiKey.PRODUCE, 9, produce_request(batch(b"x"), acks=0))
        response = await client.call(ApiKey.FETCH, 11, fetch_request(0, max_wait_ms=10_000))
        assert len(response.responses[0].partitions[0].records) > 0
        client.send(ApiKey.PRODUCE, 9, produce_request(batch(b"x"), acks=0, partition=9))
        assert await client.is_closed_by_peer()

    with_broker(tmp_path, test)


def test_idempotent_duplicates_get_the_original_offset_and_gaps_are_refused(
    tmp_path: Path,
) -> None:
    """LOG-8, TXL-2."""

    async def test(server: Server, client: RawClient) -> None:
        await topic_id_of(client)
        for sequence in range(7):
            records = batch(b"x", producer_id=5, producer_epoch=0, base_sequence=sequence)
            assert (await produced(client, 9, produce_request(records))).base_offset == sequence
        again = batch(b"x", producer_id=5, producer_epoch=0, base_sequence=3)
        assert (await produced(client, 9, produce_request(again))).base_offset == 3
        gap = batch(b"x", producer_id=5, producer_epoch=0, base_sequence=9)
        result = await produced(client, 9, produce_request(gap))
        assert result.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    with_broker(tmp_path, test)


@pytest.mark.parametrize(
    "properties",
    [{"barnabas_flush_policy": "group-fsync"}, {"log_flush_interval_messages": "1"}],
    ids=["group-fsync", "flush.messages"],
)
def test_nothing_is_acknowledged_before_the_fsync_that_the_settings_ask_for(
    tmp_path: Path, properties: dict[str, str]
) -> None:
    """Design section 3, SEG-8: the recovery point has passed an acknowledged record."""

    async def test(server: Server, client: RawClient) -> None:
        await topic_id_of(client)
        for acks in (-1, 1):
            result = await produced(client, 9, produce_request(batch(b"x"), acks=acks))
            (log,) = (
                partition.log
                for name, partition in server.replicas.partitions.items()
                if name.topic == TOPIC
            )
            assert log.recovery_point > result.base_offset

    with_broker(tmp_path, test, **properties)


@pytest.mark.parametrize("version", range(1, 12))
def test_list_offsets_knows_the_ends_and_the_times(tmp_path: Path, version: int) -> None:
    """REQ-11, SEG-7: latest, earliest, by timestamp, and nothing beyond."""

    async def test(server: Server, client: RawClient) -> None:
        await topic_id_of(client)
        await produced(client, 9, produce_request(batch(b"a", b"b", b"c")))

        async def look_up(timestamp: int) -> tuple[int, int, int]:
            response = await client.call(
                ApiKey.LIST_OFFSETS,
                version,
                list_offsets.ListOffsetsRequest(
                    topics=[
                        list_offsets.ListOffsetsTopic(
                            name=TOPIC,
                            partitions=[
                                list_offsets.ListOffsetsPartition(
                                    partition_index=0, timestamp=timestamp
                                )
                            ],
                        )
                    ],
                ),
            )
            (found,) = response.topics[0].partitions
            return found.error_code, found.timestamp, found.offset

        assert await look_up(-1) == (0, -1, 3)
        assert await look_up(-2) == (0, -1, 0)
        assert await look_up(1_001) == (0, 1_001, 1)
        assert await look_up(9_999) == (0, -1, -1)
        max_timestamp = await look_up(-3)
        if version >= 7:
            assert max_timestamp == (0, 1_002, 2)
        else:
            assert max_timestamp[0] == ErrorCode.UNSUPPORTED_VERSION

    with_broker(tmp_path, test)

"""Batches that take long to check are checked in a thread, and everything keeps its order."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas_broker.log import validator
from barnabas_broker.server import Server
from barnabas_protocol import codec
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages import produce
from barnabas_protocol.records.record import Record, encode_batch
from tests.broker.broker_requests import topic_id_of, with_broker
from tests.simulation.requests import create_topic, delete_topic
from tests.support.in_process_broker import eventually
from tests.support.raw_client import RawClient

VERSION = 9
COMPACTED = {"cleanup_policy": "compact"}


class Work:
    """What validators do with records, and where."""

    def __init__(self) -> None:
        self.on_loop = 0  # records, or batches decoded whole
        self.apart = 0
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def note(self) -> None:
        """Count one piece of work by where it is done."""
        if threading.current_thread() is threading.main_thread():
            self.on_loop += 1
        else:
            self.may_go_on.wait(20)
            self.apart += 1


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    """Counts what is scanned and decoded."""
    noted = Work()
    real_scan: Callable[..., Iterator[Any]] = validator.scan_records
    real_encode: Callable[..., bytes] = validator.encode_batch

    def scan(*arguments: Any, **options: Any) -> Iterator[Any]:
        for one in real_scan(*arguments, **options):
            noted.note()
            yield one

    def encode(*arguments: Any, **options: Any) -> bytes:
        noted.note()
        return real_encode(*arguments, **options)

    monkeypatch.setattr(validator, "scan_records", scan)
    monkeypatch.setattr(validator, "encode_batch", encode)
    return noted


def batch(count: int, value: bytes = b"v", **options: int) -> bytes:
    now_ms = 1_800_000_000_000
    return encode_batch([Record(i, now_ms, b"k", value, ()) for i in range(count)], **options)


def request_of(*batches: bytes, acks: int = -1) -> produce.ProduceRequest:
    partitions = [
        produce.PartitionProduceData(index=index, records=one) for index, one in enumerate(batches)
    ]
    topics = [produce.TopicProduceData(name="t", partition_data=partitions)]
    return produce.ProduceRequest(acks=acks, timeout_ms=5_000, topic_data=topics)


async def received(client: RawClient) -> list[tuple[int, int]]:
    response = await client.receive(ApiKey.PRODUCE, VERSION)
    return [(one.error_code, one.base_offset) for one in response.responses[0].partition_responses]


async def made(client: RawClient, **settings: str) -> None:
    settings = {
        "message_timestamp_after_max_ms": str(2**62),
        "max_message_bytes": "4000000",
    } | settings
    assert (await create_topic(client, "t", 2, **settings))[0] == 0


@pytest.mark.parametrize(
    ("settings", "heavy", "record_count"),
    [
        (COMPACTED, batch(100_000), 100_000),
        (COMPACTED, batch(3, bytes(40_000)), 3),
        # Few bytes and few records, by what their header says.
        (COMPACTED, batch(2, bytes(1_000_000), compression=4), 2),
        ({"compression_type": "lz4"}, batch(20_000), 20_000),
        ({"compression_type": "lz4"}, batch(2, bytes(1_000_000), compression=4), 2),
    ],
    ids=["records", "bytes", "decompressed", "recompressed", "recompressed bomb"],
)
def test_a_heavy_batch_is_checked_apart_and_what_follows_it_is_appended_behind_it(
    tmp_path: Path, work: Work, settings: dict[str, str], heavy: bytes, record_count: int
) -> None:
    """Attack: 100,000 records into a compacted topic held every connection up."""

    async def test(server: Server, client: RawClient) -> None:
        await made(client, **settings)
        work.may_go_on.clear()
        client.send(ApiKey.PRODUCE, VERSION, request_of(heavy, batch(1)))
        client.send(ApiKey.PRODUCE, VERSION, request_of(batch(1), batch(1)))
        async with await RawClient.connect(server.port) as other:
            # The broker serves others while the thread stands still.
            other.send(ApiKey.PRODUCE, VERSION, request_of(batch(5)))
            assert await received(other) == [(0, 0)]
            on_loop = work.on_loop
            work.may_go_on.set()
            assert await received(client) == [(0, 5), (0, 0)]
            assert await received(client) == [(0, 5 + record_count), (0, 1)]
        assert work.apart > 0
        assert on_loop <= 6
        assert work.on_loop - on_loop <= 2

    with_broker(tmp_path, test)


@pytest.mark.parametrize(("settings", "pauses"), [(COMPACTED, True), ({}, False)])
def test_batches_that_are_looked_into_share_a_turn_of_the_loop(
    tmp_path: Path, work: Work, settings: dict[str, str], pauses: bool
) -> None:
    """Attack: a hundred partitions with just what is checked on the loop took half a second."""

    async def test(server: Server, client: RawClient) -> None:
        await made(client, **settings)
        client.send(ApiKey.PRODUCE, VERSION, request_of(batch(2_000), batch(2_000)))
        client.send(ApiKey.PRODUCE, VERSION, request_of(batch(1), batch(1)))
        assert await received(client) == [(0, 0), (0, 0)]
        assert await received(client) == [(0, 2_000), (0, 2_000)]
        assert bool(server.heavy_work.pause_count) is pauses
        assert work.apart == 0

    with_broker(tmp_path, test)


@pytest.mark.parametrize(
    "large",
    [batch(100_000), batch(1, bytes(1_000_000)), batch(2, bytes(1_000_000), compression=4)],
    ids=["records", "bytes", "decompressed"],
)
@pytest.mark.parametrize("acks", [1, -1])
def test_a_batch_of_a_plain_topic_is_appended_at_once_however_large(
    tmp_path: Path, work: Work, large: bytes, acks: int
) -> None:
    """Nothing in it is looked at, so that there is nothing to do in a thread."""

    async def test(server: Server, client: RawClient) -> None:
        await made(client)
        client.send(ApiKey.PRODUCE, VERSION, request_of(large, large, acks=acks))
        assert await received(client) == [(0, 0), (0, 0)]
        assert (work.apart, work.on_loop, server.heavy_work.run_count) == (0, 0, 0)

    with_broker(tmp_path, test)


def test_a_heavy_batch_that_is_refused_says_why(tmp_path: Path, work: Work) -> None:
    async def test(server: Server, client: RawClient) -> None:
        await made(client, **COMPACTED)
        records = [Record(i, 1_800_000_000_000, None, b"v", ()) for i in range(5_000)]
        client.send(ApiKey.PRODUCE, VERSION, request_of(encode_batch(records), batch(1)))
        response = await client.receive(ApiKey.PRODUCE, VERSION)
        refused, taken = response.responses[0].partition_responses
        assert (refused.error_code, len(refused.record_errors)) == (87, 1000)
        assert (taken.error_code, taken.base_offset) == (0, 0)
        assert (work.apart, work.on_loop) == (5_000, 1)

    with_broker(tmp_path, test)


def test_a_batch_is_checked_again_where_the_settings_have_changed(
    tmp_path: Path, work: Work
) -> None:
    async def test(server: Server, client: RawClient) -> None:
        await made(client, **COMPACTED)
        work.may_go_on.clear()
        client.send(ApiKey.PRODUCE, VERSION, request_of(batch(5_000)))

        async def is_checking() -> bool:
            return server.heavy_work.run_count == 1

        await eventually(is_checking)
        log = server.logs.logs[TopicPartition("t", 0)]
        log.update_config(log.config)
        work.may_go_on.set()
        assert await received(client) == [(0, 0)]
        assert work.apart == 10_000

    with_broker(tmp_path, test)


def test_a_connection_that_ends_takes_what_waits_of_it_along(tmp_path: Path, work: Work) -> None:
    """What waits is memory that nobody counts any more."""

    async def test(server: Server, client: RawClient) -> None:
        await made(client, **COMPACTED)
        heavy = server.heavy_work
        work.may_go_on.clear()
        client.send(ApiKey.PRODUCE, VERSION, request_of(batch(5_000)))
        async with await RawClient.connect(server.port) as gone:
            gone.send(ApiKey.PRODUCE, VERSION, request_of(batch(5_000)))

            async def is_waiting() -> bool:
                return heavy.waiting_count == 1

            await eventually(is_waiting)

        async def is_forgotten() -> bool:
            return heavy.waiting_count == 0

        await eventually(is_forgotten)
        work.may_go_on.set()
        assert await received(client) == [(0, 0)]
        client.send(ApiKey.PRODUCE, VERSION, request_of(batch(1)))
        assert await received(client) == [(0, 5_000)]
        assert heavy.run_count == 1

    with_broker(tmp_path, test)


def test_acks_of_nobody_keep_their_order(tmp_path: Path, work: Work) -> None:
    async def test(server: Server, client: RawClient) -> None:
        await made(client, **COMPACTED)
        frame = codec.encode_request(
            request_of(batch(5_000), acks=0), ApiKey.PRODUCE, VERSION, 0, "raw-client"
        )
        client.send_bytes(len(frame).to_bytes(4, "big") + frame)
        client.send(ApiKey.PRODUCE, VERSION, request_of(batch(1)))
        assert await received(client) == [(0, 5_000)]

    with_broker(tmp_path, test)


def test_a_batch_for_a_topic_that_is_made_anew_meanwhile_is_not_appended_to_that(
    tmp_path: Path, work: Work
) -> None:
    """KIP-516: it named an id, and was appended by name to another topic, and acknowledged."""

    async def test(server: Server, client: RawClient) -> None:
        await made(client, **COMPACTED)
        old = await topic_id_of(client, "t")
        work.may_go_on.clear()
        data = produce.PartitionProduceData(index=0, records=batch(5_000, b"for the old topic"))
        topic = produce.TopicProduceData(topic_id=old, partition_data=[data])
        request = produce.ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[topic])
        client.send(ApiKey.PRODUCE, 13, request)

        async def is_checking() -> bool:
            return server.heavy_work.run_count == 1

        await eventually(is_checking)
        async with await RawClient.connect(server.port) as other:
            assert await delete_topic(other, "t") == 0
            await made(other, **COMPACTED)
        work.may_go_on.set()
        response = await client.receive(ApiKey.PRODUCE, 13)
        (part,) = response.responses[0].partition_responses
        assert part.error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert server.logs.logs[TopicPartition("t", 0)].log_end_offset == 0

    with_broker(tmp_path, test)

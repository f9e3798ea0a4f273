"""What fetches of one connection may hold in memory at a time."""

import asyncio
import threading
from pathlib import Path

import pytest

from barnabas_broker.env.disk import THREADS, RealFile
from barnabas_broker.replication.replica_manager import CLIENT_READS_MAX
from barnabas_protocol.api import ApiKey
from barnabas_protocol.messages import fetch
from tests.simulation import requests
from tests.support.in_process_broker import eventually, running_broker
from tests.support.raw_client import RawClient

PIPELINED = 64
VALUE_BYTES = 100_000


def test_fetches_of_one_connection_are_read_from_the_device_one_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """REQ-12, architecture 4: 64 pipelined fetches of 50 MB each are not 3 GB."""
    read_count = 0
    real_read = RealFile.read

    def counted_read(self: RealFile, size: int, position: int) -> bytes:
        nonlocal read_count
        read_count += size > VALUE_BYTES
        return real_read(self, size, position)

    def cold(self: RealFile, size: int, position: int) -> None:
        return None

    monkeypatch.setattr(RealFile, "read_nowait", cold)
    monkeypatch.setattr(RealFile, "read", counted_read)
    request = fetch.FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=50 << 20,
        topics=[
            fetch.FetchTopic(
                topic="t",
                partitions=[
                    fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=50 << 20)
                ],
            )
        ],
    )

    async def main() -> None:
        nonlocal read_count
        async with (
            running_broker(tmp_path, barnabas_tail_cache_bytes="0") as server,
            await RawClient.connect(server.port) as client,
        ):
            await requests.create_topic(client, "t")
            for _ in range(20):
                append = requests.append_request("t", 0, [b"v" * VALUE_BYTES])
                assert (await requests.append(client, append)).error_code == 0
            read_count = 0
            for _ in range(PIPELINED):
                client.send(ApiKey.FETCH, 11, request)
            # Nobody takes the answers: what was read by the time of the first is in memory.
            response = await client.receive(ApiKey.FETCH, 11)
            read_by_then = read_count
            for _ in range(PIPELINED - 1):
                response = await client.receive(ApiKey.FETCH, 11)
                (answer,) = response.responses[0].partitions
                assert len(answer.records) > 20 * VALUE_BYTES
            assert read_count == PIPELINED
            assert read_by_then <= PIPELINED // 4

    asyncio.run(main())


def test_clients_that_fetch_old_records_leave_threads_to_the_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attack: behind a hundred such fetches a controller could not read its own lease."""
    may_read = threading.Event()
    reading = 0
    real_read = RealFile.read

    def slow_read(self: RealFile, size: int, position: int) -> bytes:
        nonlocal reading
        if size > VALUE_BYTES:
            reading += 1
            may_read.wait(60)
        return real_read(self, size, position)

    monkeypatch.setattr(RealFile, "read_nowait", lambda *_: None)
    partition = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=50 << 20)
    request = fetch.FetchRequest(
        max_wait_ms=0,
        max_bytes=50 << 20,
        topics=[fetch.FetchTopic(topic="t", partitions=[partition])],
    )

    async def main() -> None:
        async with (
            running_broker(tmp_path, barnabas_tail_cache_bytes="0") as server,
            await RawClient.connect(server.port) as client,
        ):
            await requests.create_topic(client, "t")
            for _ in range(20):
                append = requests.append_request("t", 0, [b"v" * VALUE_BYTES])
                assert (await requests.append(client, append)).error_code == 0
            monkeypatch.setattr(RealFile, "read", slow_read)
            hogs = [await RawClient.connect(server.port) for _ in range(THREADS + 2)]
            for hog in hogs:
                hog.send(ApiKey.FETCH, 11, request)

            async def are_reading() -> bool:
                return reading >= CLIENT_READS_MAX

            try:
                await eventually(are_reading)
                # As the arbiter is read, the metadata log flushed, a follower fed.
                async with asyncio.timeout(20):
                    threads = [server.logs.disk.run(threading.get_ident) for _ in range(10)]
                    assert len(await asyncio.gather(*threads)) == 10
                assert reading == CLIENT_READS_MAX
                await hogs.pop().__aexit__()
            finally:
                may_read.set()
            for hog in hogs:
                response = await hog.receive(ApiKey.FETCH, 11)
                assert len(response.responses[0].partitions[0].records) > 20 * VALUE_BYTES
                await hog.__aexit__()
            # Nothing was read for the one that had gone.
            assert reading <= THREADS + 2

    asyncio.run(main())

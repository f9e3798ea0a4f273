"""`barnabas log strays` over the folder of a real broker."""

import asyncio
import json
import shutil
from pathlib import Path

from click.testing import CliRunner, Result

from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.metadata.records import PartitionRecord
from barnabas_broker.offline.stopped_broker import stopped_broker
from barnabas_cli.main import main
from barnabas_protocol.api import ApiKey
from tests.broker.broker_requests import fetch_request, topic_id_of
from tests.cli.written_logs import written
from tests.support.in_process_broker import running_broker
from tests.support.raw_client import RawClient


def strays(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["log", "strays", *arguments])


def names(data: Path) -> list[str]:
    return [
        row["name"] for row in json.loads(strays("list", "--data", str(data), "-o", "json").output)
    ]


def with_stray(data: Path) -> bytes:
    """A broker that has lost its metadata, and keeps a partition of it as a stray."""
    topic_id = written(data)
    shutil.rmtree(data / "__cluster_metadata-0")
    (data / "arbiter.json").unlink()
    kept = data / "orders-0"
    kept.rename(data.parent / "kept")

    async def run() -> None:
        async with running_broker(data):
            pass
        (data.parent / "kept").rename(kept)
        async with running_broker(data) as server:
            (directory,) = server.status()["log_directories"]
            assert directory["strays"] == 1
            assert [
                one.value
                for one in server.collector.snapshot()
                if one.name == "barnabas_log_strays"
            ] == [1]

    asyncio.run(run())
    return topic_id


def test_a_stray_of_an_unknown_topic_is_restored_with_its_topic(tmp_path: Path) -> None:
    """A broker that is alone makes the topic again, under its id; every record can be read."""
    data = tmp_path / "data"
    topic_id = with_stray(data)
    (name,) = names(data)
    result = strays("restore", name, "--data", str(data))
    assert result.exit_code == 0, result.output
    assert "restored orders-0, up to offset 1" in result.output

    async def check() -> None:
        async with (
            running_broker(data) as server,
            await RawClient.connect(server.port) as client,
        ):
            assert await topic_id_of(client) == topic_id
            response = await client.call(ApiKey.FETCH, 13, fetch_request(0, topic_id))
            assert b"carried over" in bytes(response.responses[0].partitions[0].records)

    asyncio.run(check())
    assert names(data) == []


def test_a_running_broker_is_left_alone(tmp_path: Path) -> None:
    """Listing is allowed; restoring and deleting say what to do."""
    data = tmp_path / "data"
    with_stray(data)

    async def run() -> list[Result]:
        async with running_broker(data):
            calls = [("list",), ("delete", "--all", "--yes"), ("restore",)]
            return [await asyncio.to_thread(strays, *call, "--data", str(data)) for call in calls]

    listed, deleted, restored = asyncio.run(run())
    assert listed.exit_code == 0
    assert "orders-0" in listed.output
    assert deleted.exit_code == 1
    assert "stop it first" in deleted.output
    assert restored.exit_code == 1
    assert "another broker is running on it" in restored.output
    assert len(names(data)) == 1


def test_deleting_asks_and_needs_a_name_or_all(tmp_path: Path) -> None:
    """Nothing goes by accident."""
    data = tmp_path / "data"
    with_stray(data)
    assert strays("delete", "--data", str(data)).exit_code == 2
    assert strays("delete", "no", "--data", str(data)).exit_code == 1
    assert (
        CliRunner()
        .invoke(main, ["log", "strays", "delete", "--all", "--data", str(data)], input="n\n")
        .exit_code
    )
    assert len(names(data)) == 1
    assert strays("delete", "--all", "--yes", "--data", str(data)).exit_code == 0
    assert names(data) == []
    assert not list(data.glob("orders-0*"))


def test_a_partition_that_the_broker_has_again_is_not_restored(tmp_path: Path) -> None:
    """The topic was made anew under the same name: another id."""
    data = tmp_path / "data"
    with_stray(data)
    written(data)
    result = strays("restore", "--data", str(data))
    assert result.exit_code == 1
    assert "already exists" in result.output
    assert len(names(data)) == 1


def assign(data: Path, topic_id: bytes, *, here: bool) -> None:
    """Say in the metadata that broker 7 leads the partition, in sync alone; `here`: or will be."""

    async def run() -> None:
        config = BrokerConfig.parse({"log.dirs": str(data)})
        async with stopped_broker(config) as (control, logs):
            replicas = (logs.node_id, 7) if here else (7,)
            state = PartitionRecord(topic_id, 0, replicas, (7,), 7, 5, 5)
            await control.controller.submit(lambda image: ([state], None))

    asyncio.run(run())


def test_a_stray_does_not_take_the_place_of_what_is_copied_from_a_leader(tmp_path: Path) -> None:
    """While it was away the others may have dropped the tombstones of keys that it still has:
    they would be there again once it leads."""
    data = tmp_path / "data"
    topic_id = written(data)
    assign(data, topic_id, here=False)

    async def start() -> None:
        async with running_broker(data):
            pass

    asyncio.run(start())
    (name,) = names(data)
    assign(data, topic_id, here=True)
    result = strays("restore", name, "--data", str(data))
    assert result.exit_code == 1
    assert "orders-0 is in sync on brokers 7" in result.output
    assert names(data) == [name]

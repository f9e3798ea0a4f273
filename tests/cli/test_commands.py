"""The `barnabas` command as a user meets it."""

import asyncio
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from barnabas_broker.coordinator.transaction.records import transaction_record
from barnabas_broker.coordinator.transaction.state import Transaction, TransactionState
from barnabas_cli.main import main
from barnabas_protocol.api import ApiKey
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas_protocol.records.record import Record, encode_batch
from tests.broker.broker_requests import (
    batch,
    fetch_request,
    produce_request,
    produced,
    topic_id_of,
)
from tests.cli.written_logs import written
from tests.support.in_process_broker import running_broker
from tests.support.raw_client import RawClient


def barnabas(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def test_an_imported_partition_serves_its_records_under_its_id(tmp_path: Path) -> None:
    """Issue 3, storage: the topic gets the id of `partition.metadata`; the next append follows."""
    topic_id = written(tmp_path / "source")
    result = barnabas(
        "log", "import", str(tmp_path / "source" / "orders-0"), "--data", str(tmp_path / "target")
    )
    assert result.exit_code == 0, result.output
    assert "orders-0: 1 record in 1 segment, " in result.output

    async def check() -> None:
        async with (
            running_broker(tmp_path / "target") as server,
            await RawClient.connect(server.port) as client,
        ):
            assert await topic_id_of(client) == topic_id
            response = await client.call(ApiKey.FETCH, 13, fetch_request(0, topic_id))
            assert b"carried over" in bytes(response.responses[0].partitions[0].records)
            assert (await produced(client, 9, produce_request(batch(b"x")))).base_offset == 1

    asyncio.run(check())


def kafka_partition(path: Path, batches: dict[int, list[tuple[int, int, int]]]) -> None:
    """A partition directory; segments of batches of offset, timestamp and leader epoch."""
    path.mkdir(parents=True)
    for base_offset, segment in batches.items():
        (path / f"{base_offset:020d}.log").write_bytes(
            b"".join(
                bytes(
                    encode_batch(
                        [Record(offset, timestamp, b"k%d" % offset, b"v")],
                        base_offset=offset,
                        leader_epoch=epoch,
                    )
                )
                for offset, timestamp, epoch in segment
            )
        )


def imported_log(data: Path) -> tuple[int, int, int]:
    """Start offset, end offset and leader epoch of `orders-0`, after a round of retention."""

    async def run() -> tuple[int, int, int]:
        async with running_broker(data) as server:
            log = server.logs.logs[TopicPartition("orders", 0)]
            await server.logs.tasks.retain()
            partition = server.image.topics.by_name["orders"].partitions[0]
            return log.log_start_offset, log.log_end_offset, partition.leader_epoch

    return asyncio.run(run())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can write what is not its own")
def test_what_root_imports_belongs_to_the_brokers_user(tmp_path: Path) -> None:
    """The broker is not root: it could open nothing of it. What was the user's stays as it is."""
    source, target = tmp_path / "source" / "orders-0", tmp_path / "target"
    kafka_partition(source, {0: [(0, 1000, 0)], 1: [(1, 2000, 0)]})
    target.mkdir()
    (target / "other").touch()
    os.chown(target, 12345, 23456)
    os.chown(target / "other", 34567, 34567)
    result = barnabas("log", "import", str(source), "--data", str(target))
    assert result.exit_code == 0, result.output
    owners = {path.relative_to(target): path.stat().st_uid for path in target.rglob("*")}
    assert owners.pop(Path("other")) == 34567
    assert set(owners.values()) == {12345}
    assert {"orders-0/00000000000000000000.log", "meta.properties"} <= set(map(str, owners))
    assert os.stat(source).st_uid == 0


def test_imported_records_stay_until_somebody_says_how_long(tmp_path: Path) -> None:
    """What the topic's settings were in Kafka is not in the directory: nothing expires."""
    source = tmp_path / "source" / "orders-0"
    kafka_partition(source, {0: [(0, 1000, 0)], 1: [(1, 2000, 0)], 2: [(2, 3000, 0)]})
    kept, expired = tmp_path / "kept", tmp_path / "expired"
    result = barnabas("log", "import", str(source), "--data", str(kept))
    assert "keeps all records" in result.output
    assert imported_log(kept)[:2] == (0, 3)
    setting = ("--config", "retention.ms=1000")
    result = barnabas("log", "import", str(source), "--data", str(expired), *setting)
    assert result.exit_code == 0, result.output
    assert imported_log(expired)[0] > 0
    wrong = barnabas(
        "log", "import", str(source), "--data", str(tmp_path / "new"), "--config", "retention.ms=x"
    )
    assert wrong.exit_code == 1
    assert "retention.ms" in wrong.output


def test_an_imported_topic_is_led_above_every_epoch_in_its_batches(tmp_path: Path) -> None:
    """The checkpoint of leader epochs may be missing, or end before the batches do."""
    source = tmp_path / "source" / "orders-0"
    kafka_partition(source, {0: [(0, 1000, 1), (1, 1000, 4)]})
    (source / "leader-epoch-checkpoint").write_text("0\n1\n1 0\n")
    assert barnabas("log", "import", str(source), "--data", str(tmp_path / "data")).exit_code == 0
    assert imported_log(tmp_path / "data")[2] >= 5


def test_a_new_producer_gets_no_id_that_an_imported_log_knows(tmp_path: Path) -> None:
    """Another cluster gave them out: the first batch of a producer with such an id was taken for
    a repeated one, acknowledged and not there."""

    async def write(data: Path, value: bytes) -> int:
        async with (
            running_broker(data) as server,
            await RawClient.connect(server.port) as client,
        ):
            await topic_id_of(client)
            new = await client.call(
                ApiKey.INIT_PRODUCER_ID,
                4,
                InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000),
            )
            first = batch(
                value,
                producer_id=new.producer_id,
                producer_epoch=new.producer_epoch,
                base_sequence=0,
            )
            response = await produced(client, 9, produce_request(first))
            assert response.error_code == 0
            return int(response.base_offset)

    source, target = tmp_path / "source", tmp_path / "target"
    assert asyncio.run(write(source, b"of another cluster")) == 0
    assert barnabas("log", "import", str(source / "orders-0"), "--data", str(target)).exit_code == 0
    assert asyncio.run(write(target, b"of this one")) == 1
    assert imported_log(target)[1] == 2


def test_a_producer_whose_id_an_imported_log_knows_is_not_taken_for_that_one(
    tmp_path: Path,
) -> None:
    """Both clusters had given out the id before: its first batch was acknowledged, and lost."""

    async def new_producer(client: RawClient) -> tuple[int, int]:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        new = await client.call(ApiKey.INIT_PRODUCER_ID, 4, request)
        return new.producer_id, new.producer_epoch

    async def write(data: Path, ids: tuple[int, int] | None = None) -> tuple[int, tuple[int, int]]:
        async with (
            running_broker(data) as server,
            await RawClient.connect(server.port) as client,
        ):
            await topic_id_of(client)
            ids = await new_producer(client) if ids is None else ids
            sent = batch(b"x", producer_id=ids[0], producer_epoch=ids[1], base_sequence=0)
            response = await produced(client, 9, produce_request(sent))
            assert response.error_code == 0
            return int(response.base_offset), ids

    async def first_of_ours(data: Path) -> tuple[int, int]:
        async with (
            running_broker(data) as server,
            await RawClient.connect(server.port) as client,
        ):
            return await new_producer(client)

    source, target = tmp_path / "source", tmp_path / "target"
    _, theirs = asyncio.run(write(source))
    ours = asyncio.run(first_of_ours(target))
    assert ours == theirs
    assert barnabas("log", "import", str(source / "orders-0"), "--data", str(target)).exit_code == 0
    assert asyncio.run(write(target, ours))[0] == 1
    assert imported_log(target)[1] == 2


def test_a_decided_transaction_is_committed_and_one_that_nobody_knows_is_told(
    tmp_path: Path,
) -> None:
    """Its markers had not come to this partition; it was aborted, though it was acknowledged."""
    source = tmp_path / "source" / "orders-0"
    kafka_partition(source, {0: [(0, 1000, 0)]})
    with (source / f"{0:020d}.log").open("ab") as file:
        for offset, producer_id in ((1, 7), (2, 8)):
            opening = encode_batch(
                [Record(offset, 1000, b"k", b"v")],
                base_offset=offset,
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=0,
                is_transactional=True,
            )
            file.write(opening)
    decided = Transaction(
        transactional_id="app",
        producer_id=7,
        producer_epoch=0,
        timeout_ms=60_000,
        state=TransactionState.PREPARE_COMMIT,
        partitions=frozenset({TopicPartition("orders", 0)}),
    )
    record, notes = transaction_record(decided, 0), source.parent / "__transaction_state-11"
    notes.mkdir()
    (notes / f"{0:020d}.log").write_bytes(encode_batch([Record(0, 1000, record.key, record.value)]))
    result = barnabas("log", "import", str(source), "--data", str(tmp_path / "data"))
    assert result.exit_code == 0, result.output
    first, warning, *_ = result.output.splitlines()
    assert first.endswith(
        "decided transactions that were committed: 1; open transactions that were aborted: 1"
    )
    assert "orders-0: WARNING: 1 of these may have been committed" in warning
    assert imported_log(tmp_path / "data")[1] == 5


def test_a_compacted_topic_with_a_gap_between_segments_is_imported(tmp_path: Path) -> None:
    """Compaction has removed what was at the end of the first."""
    source = tmp_path / "source" / "orders-0"
    kafka_partition(source, {0: [(0, 1000, 0)], 50: [(57, 1000, 0)]})
    result = barnabas("log", "import", str(source), "--data", str(tmp_path / "data"))
    assert result.exit_code == 0, result.output
    assert "2 records in 2 segments, offsets 0 to 58" in result.output
    assert imported_log(tmp_path / "data")[:2] == (0, 58)


def test_import_refuses_a_running_broker_a_known_topic_and_half_a_topic(tmp_path: Path) -> None:
    """Nothing is changed, and the message says what to do."""
    written(tmp_path / "source")
    partition = str(tmp_path / "source" / "orders-0")

    async def while_running() -> Result:
        async with running_broker(tmp_path / "target"):
            return await asyncio.to_thread(
                barnabas, "log", "import", partition, "--data", str(tmp_path / "target")
            )

    running = asyncio.run(while_running())
    assert running.exit_code == 1
    assert "another broker is running" in running.output

    again = barnabas("log", "import", partition, "--data", str(tmp_path / "source"))
    assert again.exit_code == 1
    assert "already exists" in again.output

    (tmp_path / "source" / "orders-0").rename(tmp_path / "source" / "orders-1")
    half = barnabas(
        "log", "import", str(tmp_path / "source" / "orders-1"), "--data", str(tmp_path / "target")
    )
    assert half.exit_code == 1
    assert "partitions [0] too" in half.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["lgo"], "Did you mean 'log'?"),
        (["dev", "--brokers", "0"], "1<=x<=9"),
        (["dev", "--set", "nonsense"], "KEY=VALUE"),
        (["broker"], "Missing option '--config'"),
    ],
)
def test_wrong_words_get_one_line_that_says_what_to_do(arguments: list[str], words: str) -> None:
    """A number of brokers that cannot be is told; unknown commands name the nearest."""
    result = barnabas(*arguments)
    assert result.exit_code == 2
    assert words in result.output


def test_help_lists_the_commands_without_running_anything() -> None:
    result = barnabas("--help")
    assert result.exit_code == 0
    for name in ("broker", "dev", "log"):
        assert name in result.output

"""Several log directories, one of which cannot be used at a start."""

import asyncio
from pathlib import Path

import pytest

from barnabas_broker.server import Server
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition
from tests.broker.directory_requests import PARTITION_COUNT, create, produced
from tests.support.in_process_broker import eventually, running_broker

# By a broker that has the partition in a failed directory, and by one that does not know of it.
NOT_LED = (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER)


def directory_ids(server: Server) -> set[bytes]:
    partitions = server.image.topics.by_name["t"].partitions
    return {directory for partition in partitions for directory in partition.directories}


@pytest.mark.parametrize("fault", ["a file in its place", "not mounted"])
def test_partitions_of_a_failed_directory_are_not_made_anew(tmp_path: Path, fault: str) -> None:
    """LOG-11, NODE-8, KIP-858: nobody leads them meanwhile, and they come back unharmed."""
    a, b, away = tmp_path / "a", tmp_path / "b", tmp_path / "away"
    both = {"log_dirs": f"{a},{b}", "metadata_log_dir": str(a)}

    async def test() -> None:
        async with running_broker(a, **both) as server:
            await create(server)
            for partition in range(PARTITION_COUNT):
                assert await produced(server, partition) == (0, 0)

            async def all_are_noted() -> bool:
                return directory_ids(server) == {
                    directory.directory_id for directory in server.logs.directories
                }

            await eventually(all_are_noted)
        lost = sorted(int(path.name.split("-")[1]) for path in b.glob("t-*"))
        assert 0 < len(lost) < PARTITION_COUNT
        b.rename(away)
        if fault == "a file in its place":
            b.write_text("a disk that failed")
        async with running_broker(a, **both) as server:
            for partition in range(PARTITION_COUNT):
                code, _ = await produced(server, partition)
                assert code in (NOT_LED if partition in lost else (ErrorCode.NONE,))
        assert not any((a / f"t-{partition}").exists() for partition in lost)
        if b.is_file():
            b.unlink()
        else:
            assert not list(b.glob("t-*"))
            b.rename(tmp_path / "empty")
        away.rename(b)
        async with running_broker(a, **both) as server:
            for partition in range(PARTITION_COUNT):
                assert await produced(server, partition) == (0, 1 if partition in lost else 2)

    asyncio.run(test())


def test_without_a_remembered_directory_any_that_is_offline_may_have_it(tmp_path: Path) -> None:
    """NODE-8: metadata that an older broker wrote remembers none."""
    a, b = tmp_path / "a", tmp_path / "b"

    async def test() -> None:
        async with running_broker(a, log_dirs=f"{a},{b}", metadata_log_dir=str(a)) as server:
            server.logs.directories[1].fail(OSError("gone"))
            with pytest.raises(Exception, match="offline"):
                server.logs.create(
                    TopicPartition("old", 0), bytes(16), server.dynamic.log_config({}), is_new=False
                )

    asyncio.run(test())


def test_directories_turns_and_the_controller_are_told_to_prometheus(tmp_path: Path) -> None:
    """MET-1, NODE-8: an offline directory can be seen, and so can what takes long."""
    a, b = tmp_path / "a", tmp_path / "b"
    b.write_text("a disk that failed")

    async def test() -> None:
        async with running_broker(a, log_dirs=f"{a},{b}", metadata_log_dir=str(a)) as server:
            await create(server)
            assert await produced(server, 0) == (0, 0)
            values = {
                (sample.name, *sample.labels.values()): sample.value
                for sample in server.collector.snapshot()
            }
        assert values["barnabas_log_directory_online", str(a)] == 1
        assert values["barnabas_log_directory_online", str(b)] == 0
        assert values["barnabas_log_directory_logs", str(a)] == PARTITION_COUNT + 1
        assert values["barnabas_controller_active",] == 1
        for name in ("turns_total", "controller_commands_total", "controller_queue_seconds_total"):
            value = values[f"barnabas_{name}",]
            assert isinstance(value, int | float)
            assert value > 0
        for name in ("cleaner_rounds_total", "recovery_logs_remaining", "turn_failures_total"):
            assert values[f"barnabas_{name}",] == 0

    asyncio.run(test())


def logs_in(server: Server, path: Path) -> int:
    (found,) = (one for one in server.status()["log_directories"] if one["path"] == str(path))
    assert found["online"]
    return int(found["logs"])


def test_a_directory_is_added_and_an_empty_one_taken_away_between_two_starts(
    tmp_path: Path,
) -> None:
    """What the operator does with volumes: the status says how many logs each directory has."""
    a, b, c = tmp_path / "a", tmp_path / "b", tmp_path / "c"

    async def test() -> None:
        async with running_broker(a) as server:
            await create(server)
            assert await produced(server, 0) == (0, 0)
        for count, paths in enumerate(((a, b, c), (a, b)), start=1):
            named = {"log_dirs": ",".join(map(str, paths)), "metadata_log_dir": str(a)}
            async with running_broker(a, **named) as server:
                assert await produced(server, 0) == (0, count)
                assert logs_in(server, a) == PARTITION_COUNT + 1  # and the metadata log
                assert [logs_in(server, path) for path in paths[1:]] == [0] * (len(paths) - 1)

    asyncio.run(test())


def test_replicas_of_a_directory_that_was_taken_away_have_no_leader_and_come_back(
    tmp_path: Path,
) -> None:
    """None is made anew elsewhere: by that the operator sees that a volume was not empty."""
    a, b = tmp_path / "a", tmp_path / "b"
    both = {"log_dirs": f"{a},{b}", "metadata_log_dir": str(a)}

    async def test() -> None:
        async with running_broker(a, **both) as server:
            await create(server)
            for partition in range(PARTITION_COUNT):
                assert await produced(server, partition) == (0, 0)
            there = logs_in(server, b)
            assert 0 < there < PARTITION_COUNT

            async def all_are_noted() -> bool:
                return len(directory_ids(server)) == 2

            await eventually(all_are_noted)
        async with running_broker(a, metadata_log_dir=str(a)) as alone:

            async def some_have_no_leader() -> bool:
                return without_leader(alone) == there

            await eventually(some_have_no_leader)
            assert logs_in(alone, a) == PARTITION_COUNT - there + 1
        async with running_broker(a, **both) as server:
            for partition in range(PARTITION_COUNT):
                assert await produced(server, partition) == (0, 1)

    asyncio.run(test())


def without_leader(server: Server) -> int:
    return sum(one.leader < 0 for one in server.image.topics.by_name["t"].partitions)

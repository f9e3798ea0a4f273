"""Replicas that move between log directories while they are written and read."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from barnabas_broker.config.topic import LogConfig
from barnabas_broker.log.log_flush import LogFlush
from barnabas_broker.log.manager.log_directory import LogDirectory
from barnabas_broker.log.manager.log_manager import LogManager
from barnabas_broker.log.manager.log_moves import begin_copy
from barnabas_broker.log.partition_log import PartitionLog
from barnabas_broker.replication import future_log
from barnabas_broker.replication.follower.follower_append import FollowerAppend
from barnabas_broker.replication.future_log import FutureLogs
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition
from tests.support.replica_nodes import (
    TP,
    Links,
    ReplicaNode,
    led_by,
    soon,
    topic_records,
    until,
    values_of,
)
from tests.support.simulated_disk import SimulatedDisk
from tests.support.virtual_loop import run_virtual

A, B = "/a", "/b"
SMALL = LogConfig.build({}, {"segment.bytes": str(1024 * 1024), "file.delete.delay.ms": "1000"})


async def leader_in_a() -> ReplicaNode:
    """Node 0 with two directories, leading the only partition, whose log is in the first."""
    node = await ReplicaNode(0, Links(), directories=f"{A},{B}", topic_config=SMALL).start()
    await node.learn([*topic_records(), led_by(0, 0)])
    if node.log.directory != f"{A}/t-0":
        node.replicas.future_logs.move(TP, A)
        await moved(node)
    for number in range(20):
        node.produce(b"%d" % number * 50_000)
    return node


async def moved(node: ReplicaNode) -> None:
    await until(lambda: not node.replicas.future_logs.moving)


def run(work: Callable[[ReplicaNode], Coroutine[Any, Any, None]]) -> None:
    async def test() -> None:
        node = await leader_in_a()
        try:
            await work(node)
        finally:
            await node.stop()

    run_virtual(test())


def names(node: ReplicaNode, directory: str) -> list[str]:
    """The partition directories of the topic."""
    return [name for name in node.disk.list_directory(directory) if name.startswith("t-0")]


def error_of(moves: FutureLogs, topic_partition: TopicPartition, path: str) -> int:
    with pytest.raises(KafkaError) as caught:
        moves.move(topic_partition, path)
    return caught.value.code


def test_a_replica_moves_with_all_it_has() -> None:
    """KIP-113: records, offsets, epochs; the old files go, and appends go on in the new place."""

    async def work(node: ReplicaNode) -> None:
        old, expected = node.log, await node.values()
        before = (old.log_end_offset, old.high_watermark, old.leader_epochs.entries)
        told = []
        node.replicas.future_logs.on_moved.append(lambda item: told.append(item.log.directory))
        node.replicas.future_logs.move(TP, B)
        await moved(node)
        log = node.log
        assert log.directory == f"{B}/t-0"
        assert (log.log_end_offset, log.high_watermark, log.leader_epochs.entries) == before
        assert await node.values() == expected
        assert node.logs.get(TP) is log
        assert old.is_offline
        assert names(node, B) == ["t-0"]
        assert all(name.endswith("-delete") for name in names(node, A))
        assert told == [f"{B}/t-0"]
        node.produce(b"after")
        assert node.log.high_watermark == before[0] + 1

    run(work)


def test_what_is_appended_meanwhile_moves_too() -> None:
    """KIP-113: the copy takes its place only when it has everything."""

    async def work(node: ReplicaNode) -> None:
        moves = node.replicas.future_logs
        moves.move(TP, B)
        count = 0
        while moves.moving:
            node.produce(b"m%d" % count)
            count += 1
            await asyncio.sleep(0)
        assert count > 3
        values = [value for _, _, value in await node.values()]
        assert values[20:] == [b"m%d" % number for number in range(count)]
        assert node.log.directory == f"{B}/t-0"

    run(work)


def test_a_moved_replica_is_found_after_a_clean_stop() -> None:
    """NODE-8: its offsets are in the checkpoints of its new directory."""

    async def test() -> None:
        node = await leader_in_a()
        expected = await node.values()
        node.replicas.future_logs.move(TP, B)
        await moved(node)
        node.produce(b"after")
        image, high_watermark = node.image, node.log.high_watermark
        await node.stop()
        again = ReplicaNode(0, Links(), disk=node.disk, directories=f"{A},{B}", topic_config=SMALL)
        await again.start(image)
        assert again.log.directory == f"{B}/t-0"
        assert (await again.values())[: len(expected)] == expected
        assert again.log.high_watermark == high_watermark
        await again.stop()

    run_virtual(test())


@pytest.mark.parametrize("crashes", [False, True])
def test_a_move_goes_on_after_a_restart(crashes: bool) -> None:
    """KIP-113: the user has asked once; what was copied before is not relied on."""

    async def test() -> None:
        node = await leader_in_a()
        await node.log.flush()
        expected = await node.values()
        node.replicas.future_logs.move(TP, B)
        await soon(lambda: any(f.size_bytes > 0 for f in node.replicas.future_logs.moving.values()))
        image = node.image
        if crashes:
            await node.crash()
        else:
            await node.stop()
        again = ReplicaNode(0, Links(), disk=node.disk, directories=f"{A},{B}", topic_config=SMALL)
        await again.start(image)
        assert again.log.directory == f"{A}/t-0"
        assert again.replicas.future_logs.moving.keys() == {TP}
        await moved(again)
        assert again.log.directory == f"{B}/t-0"
        assert await again.values() == expected
        await again.stop()
        third = ReplicaNode(0, Links(), disk=node.disk, directories=f"{A},{B}", topic_config=SMALL)
        await third.start(image)
        assert not third.replicas.future_logs.moving
        assert third.log.directory == f"{B}/t-0"
        await third.stop()

    run_virtual(test())


def test_a_move_that_was_taken_back_is_not_resumed() -> None:
    """KIP-113: its copy may still be there, under another name."""

    async def test() -> None:
        node = await leader_in_a()
        moves = node.replicas.future_logs
        moves.move(TP, B)
        await soon(lambda: any(future.size_bytes > 0 for future in moves.moving.values()))
        moves.move(TP, A)
        await soon(lambda: not moves._is_working)
        assert [name.endswith("-discarded") for name in names(node, B)] == [True]
        image = node.image
        await node.stop()
        again = ReplicaNode(0, Links(), disk=node.disk, directories=f"{A},{B}", topic_config=SMALL)
        await again.start(image)
        assert not again.replicas.future_logs.moving
        assert again.log.directory == f"{A}/t-0"
        await again.stop()

    run_virtual(test())


def test_a_move_can_be_taken_back() -> None:
    """KIP-113: to the directory where it is means to stay; the copy goes."""

    async def work(node: ReplicaNode) -> None:
        moves = node.replicas.future_logs
        moves.move(TP, B)
        await soon(lambda: any(name.endswith("-future") for name in names(node, B)))
        moves.move(TP, A)
        assert not moves.moving
        await soon(lambda: not moves._is_working)
        assert node.log.directory == f"{A}/t-0"
        await node.logs.removals.remove_due(node.clock.monotonic_ms() + 1)
        assert names(node, B) == []

    run(work)


def test_moves_that_cannot_be_are_refused() -> None:
    """KIP-113: errors 57, 56 and 9."""

    async def work(node: ReplicaNode) -> None:
        moves = node.replicas.future_logs
        assert error_of(moves, TP, "/elsewhere") == ErrorCode.LOG_DIR_NOT_FOUND
        unknown = TopicPartition("t", 7)
        assert error_of(moves, unknown, B) == ErrorCode.REPLICA_NOT_AVAILABLE
        node.logs.take_offline(B, OSError("gone"))
        assert error_of(moves, TP, B) == ErrorCode.KAFKA_STORAGE_ERROR
        node.logs.take_offline(A, OSError("gone"))
        assert error_of(moves, TP, A) == ErrorCode.KAFKA_STORAGE_ERROR

    run(work)


def test_a_replica_that_comes_later_is_made_where_it_was_wished() -> None:
    """KIP-113: tools name the directory of a replica before it is assigned."""

    async def work(node: ReplicaNode) -> None:
        moves = node.replicas.future_logs
        for index in (1, 2, 3):
            error_of(moves, TopicPartition("t", index), B)
        await node.learn([led_by(0, 0, index=index) for index in (1, 2, 3)])
        assert [node.partition(index).log.directory for index in (1, 2, 3)] == [
            f"{B}/t-{index}" for index in (1, 2, 3)
        ]
        assert not moves.requested_directories

    run(work)


@pytest.mark.parametrize("failing", [A, B])
def test_a_directory_that_fails_ends_the_move_and_nothing_else(failing: str) -> None:
    """LOG-11: the replica stays where it is, or is lost with its directory."""

    async def work(node: ReplicaNode) -> None:
        moves = node.replicas.future_logs
        moves.move(TP, B)
        await soon(lambda: any(future.size_bytes > 0 for future in moves.moving.values()))
        node.logs.take_offline(failing, OSError("gone"))
        await soon(lambda: not moves._is_working)
        assert not moves.moving
        assert node.log.is_offline == (failing == A)

    run(work)


def test_a_move_to_a_full_disk_waits_until_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """VOL-4: it neither copies again and again meanwhile, nor keeps other moves from being done."""
    copied: list[str] = []

    async def counted(logs: LogManager, log: PartitionLog, target: LogDirectory) -> PartitionLog:
        copied.append(f"{log.topic_partition.partition} to {target.path}")
        return await begin_copy(logs, log, target)

    monkeypatch.setattr(future_log, "begin_copy", counted)

    async def work(node: ReplicaNode) -> None:
        await node.learn([led_by(0, 0, index=1)])
        moves, other = node.replicas.future_logs, node.partition(1)
        if other.log.directory.startswith(A):
            moves.move(other.topic_partition, B)
            await moved(node)
            copied.clear()
        node.produce(b"small", index=1)
        node.disk.fail("append", f"{B}/t-0.", errno.ENOSPC)
        moves.move(TP, B)
        moves.move(other.topic_partition, A)
        await until(lambda: other.log.directory.startswith(A))
        await asyncio.sleep(60)
        assert copied == [f"0 to {B}", f"1 to {A}"]
        assert node.log.directory == f"{A}/t-0"
        await node.logs.disk_guard.look()
        await moved(node)
        assert node.log.directory == f"{B}/t-0"

    run(work)


def test_a_copy_of_a_log_that_was_cut_begins_anew() -> None:
    """REC-5: what was copied may be what was cut."""

    async def work(node: ReplicaNode) -> None:
        moves = node.replicas.future_logs
        moves.move(TP, B)
        await soon(lambda: any(future.size_bytes > 0 for future in moves.moving.values()))
        node.log.truncate_to(3)
        node.produce(b"other")
        await moved(node)
        values = [value for _, _, value in await node.values()]
        assert [len(value or b"") for value in values] == [50_000, 50_000, 50_000, 5]
        assert node.log.directory == f"{B}/t-0"

    run(work)


def test_a_deleted_partition_is_not_moved() -> None:
    """TOP-14: nothing of it may come back under its name."""

    async def work(node: ReplicaNode) -> None:
        moves = node.replicas.future_logs
        moves.move(TP, B)
        await soon(lambda: any(future.size_bytes > 0 for future in moves.moving.values()))
        await node.learn([led_by(1, 1, replicas=(1, 2))])
        await soon(lambda: not moves._is_working)
        assert "t-0" not in names(node, A) + names(node, B)

    run(work)


def test_the_power_may_go_at_any_time_of_a_move() -> None:
    """KIP-113: after the start there is one log of the partition, with all that was flushed."""
    found_in = set()
    for seed in range(60):

        async def test(seed: int = seed) -> str:
            node = await leader_in_a()
            node.disk.random = type(node.disk.random)(seed)
            await node.log.flush()
            expected = await node.values()
            image = node.image
            node.replicas.future_logs.move(TP, B)
            for _ in range(seed):
                await asyncio.sleep(0)
            disk = await node.crash()
            again = ReplicaNode(0, Links(), disk=disk, directories=f"{A},{B}", topic_config=SMALL)
            await again.start(image)
            log = again.log
            assert await values_of(log) == expected, f"seed {seed}"
            assert not [n for n in names(again, A) + names(again, B) if n == "t-0"][1:]
            await again.stop()
            return log.directory

        found_in.add(run_virtual(test()))
    assert found_in == {f"{A}/t-0", f"{B}/t-0"}


class SlowCopyDisk(SimulatedDisk):
    """A flush of the second directory takes 50 ms, as that of a disk does."""

    async def run(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        owner = getattr(function, "__self__", None)
        if isinstance(owner, LogFlush) and owner._log.directory.startswith(B):
            await asyncio.sleep(0.05)
        return await super().run(function, *args, **kwargs)


FSYNC = LogConfig.build({}, {"barnabas.flush.policy": "group-fsync", "retention.ms": "-1"})


def test_what_was_acknowledged_from_the_old_disk_is_on_the_new_one() -> None:
    """Under group-fsync nothing that is acknowledged depends on the page cache (LOG-2)."""

    async def test(cut_ms: int) -> None:
        node = ReplicaNode(
            0, Links(), directories=f"{A},{B}", topic_config=FSYNC, disk=SlowCopyDisk()
        )
        await node.start()
        await node.learn([*topic_records(), led_by(0, 0)])
        if node.log.directory != f"{A}/t-0":
            node.replicas.future_logs.move(TP, A)
            await moved(node)
        partition = node.replicas.find(TP)
        for number in range(20):
            node.produce(b"%d" % number * 5_000)
        node.replicas.future_logs.move(TP, B)
        acknowledged = 0
        for number in range(cut_ms):
            if number % 14 == 0:
                node.produce(b"while it moves")
            await asyncio.sleep(0.001)
            while partition.is_acknowledged(acknowledged + 1, -1):
                acknowledged += 1
        image, disk = node.image, node.disk
        disk.crash(keep_some=False)
        again = ReplicaNode(0, Links(), disk=disk, directories=f"{A},{B}", topic_config=FSYNC)
        await again.start(image)
        assert again.log.log_end_offset >= acknowledged, cut_ms
        assert acknowledged or cut_ms < 60
        directories.add(again.log.directory)
        await again.stop()

    directories: set[str] = set()
    for cut_ms in range(20, 240, 7):
        run_virtual(test(cut_ms))
    assert directories == {f"{A}/t-0", f"{B}/t-0"}


def test_what_was_flushed_before_a_crash_is_flushed_where_the_log_moves_after_it() -> None:
    """The recovery point that the crash left is an old one: it says nothing of that."""

    async def test() -> None:
        node = await leader_in_a()
        for _ in range(3):
            node.log.roll()
            node.produce(b"in a segment of its own")
        await node.log.flush()
        expected = await node.values()
        image, disk = node.image, await node.crash()
        again = ReplicaNode(0, Links(), disk=disk, directories=f"{A},{B}", topic_config=SMALL)
        await again.start(image)
        assert again.log.recovery_point == 0
        again.replicas.future_logs.move(TP, B)
        await moved(again)
        disk = await again.crash(keep_some=False)
        third = ReplicaNode(0, Links(), disk=disk, directories=f"{A},{B}", topic_config=SMALL)
        await third.start(image)
        assert third.log.directory == f"{B}/t-0"
        assert await third.values() == expected
        await third.stop()

    run_virtual(test())


def test_a_follower_acknowledges_only_what_is_flushed_where_its_log_is_now() -> None:
    """Its log is replaced by the copy between an append and the flush before the next fetch."""

    async def work(node: ReplicaNode) -> None:
        partition = node.partition()
        other = node.log
        follower = FollowerAppend(
            lambda _: partition,
            on_directory_error=lambda _: None,
            note_truncations=node.logs.note_truncations,
            knows_epochs=lambda: True,
        )
        partition.log.update_config(FSYNC)
        await partition.log.flush()
        node.produce(b"more")
        await asyncio.sleep(0)
        follower._note_unsynced(partition)
        settling = asyncio.create_task(follower.settle())
        copy = await begin_copy(node.logs, other, node.logs.directories[1])
        copy.append_as_follower(b"".join((await other.read(0, 1 << 24, 99)).buffers))
        copy.write_staged()
        other.retire()
        partition.log = copy
        await settling
        assert copy.recovery_point == copy.log_end_offset > 0

    run(work)

"""Logs that are opened again in place because a write found no room (VOL-4, decision 0016)."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from barnabas_broker.config.topic import LogConfig
from barnabas_broker.log.cleaner.cleaned_segment import CleanedSegment
from barnabas_broker.log.manager.disk_room import Room
from barnabas_broker.metadata.records import RemoveTopicRecord, TopicRecord
from tests.support.replica_nodes import (
    TOPIC,
    TOPIC_ID,
    TP,
    Links,
    ReplicaNode,
    led_by,
    soon,
    topic_records,
    until,
)
from tests.support.simulated_clock import SimulatedClock
from tests.support.simulated_disk import Result, SimulatedDisk
from tests.support.simulated_random import SimulatedRandom
from tests.support.virtual_loop import run_virtual

FSYNC = LogConfig.build({}, {"barnabas.flush.policy": "group-fsync"})


class HeldDisk(SimulatedDisk):
    """A disk on which one kind of work can be held up before it begins."""

    held = ""

    def __init__(self) -> None:
        super().__init__(SimulatedRandom(1), SimulatedClock())
        self.waiting_count = 0
        self.released = asyncio.Event()

    def release(self) -> None:
        self.held = ""
        self.released.set()

    async def _in_thread(self, call: Callable[[], Result]) -> Result:
        if self.held and self.held in call.func.__qualname__:  # type: ignore[attr-defined]
            self.waiting_count += 1
            await self.released.wait()
        return await super()._in_thread(call)

    def no_room(self) -> None:
        self.fail("append", "t-0", errno.ENOSPC)


def run(
    work: Callable[[ReplicaNode, HeldDisk], Coroutine[Any, Any, None]],
    config: LogConfig | None = None,
    directories: str = "/a",
) -> None:
    async def test() -> None:
        disk = HeldDisk()
        node = await ReplicaNode(
            0, Links(), disk=disk, directories=directories, topic_config=config
        ).start()
        await node.learn([*topic_records(), led_by(0, 0)])
        await work(node, disk)

    run_virtual(test())


def test_the_names_of_a_reopened_log_are_on_the_device_before_it_acknowledges() -> None:
    """LOG-14: the first flush, which makes the folder and the topic id safe, is still to come."""

    async def work(node: ReplicaNode, disk: HeldDisk) -> None:
        disk.forgets_directories = True
        disk.no_room()
        old = node.log
        node.produce(b"refused")
        await until(lambda: node.log is not old)
        node.produce(b"acknowledged", acks=-1)
        await until(lambda: node.log.high_watermark == 1)
        image = node.image
        await node.crash(keep_some=False)
        again = await ReplicaNode(
            0, Links(), disk=disk, directories="/a", topic_config=FSYNC
        ).start(image)
        assert [value for _, _, value in await again.values()] == [b"acknowledged"]
        assert again.log.topic_id == TOPIC_ID
        await again.stop()

    run(work, FSYNC)


def test_settings_that_change_while_a_log_is_opened_again_hold_for_it() -> None:
    """The controller and the leader must agree on `min.insync.replicas` (LEAD-7)."""

    async def work(node: ReplicaNode, disk: HeldDisk) -> None:
        disk.held = "LogLoader.load"
        disk.no_room()
        old = node.log
        node.produce(b"refused")
        await soon(lambda: disk.waiting_count == 1)
        changed = LogConfig.build({}, {"min.insync.replicas": "2"})
        node.logs.update_topic_configs({TOPIC: changed})
        disk.release()
        await until(lambda: node.log is not old)
        assert node.log.config.min_insync_replicas == 2
        await node.stop()

    run(work)


@pytest.mark.parametrize("is_made_anew", [False, True])
def test_a_topic_deleted_while_its_log_is_opened_again_costs_no_directory(
    is_made_anew: bool,
) -> None:
    """Nor does the work on the old log touch the new one of its name."""

    async def work(node: ReplicaNode, disk: HeldDisk) -> None:
        node.produce(b"old")
        disk.held = "LogLoader.load"
        disk.no_room()
        node.produce(b"refused")
        await soon(lambda: disk.waiting_count == 1)
        asyncio.get_running_loop().call_later(1, disk.release)
        new_id = bytes(15) + b"n"
        await node.learn([RemoveTopicRecord(TOPIC_ID)])
        if is_made_anew:
            partition = replace(led_by(0, 0), topic_id=new_id)
            node.logs.disk_guard.of(node.logs.directories[0]).room = Room.ENOUGH
            await node.learn([TopicRecord(name=TOPIC, topic_id=new_id), partition])
            node.produce(b"new")
        await until(lambda: not disk.held)
        await asyncio.sleep(1)
        assert not node.logs.directories[0].is_offline
        if is_made_anew:
            assert [value for _, _, value in await node.values()] == [b"new"]
        await node.stop()

    run(work)


def test_a_move_whose_log_was_opened_again_loses_nothing() -> None:
    """KIP-113: the copy is one of the log that there was, and begins anew."""

    async def work(node: ReplicaNode, disk: HeldDisk) -> None:
        if node.log.directory != "/a/t-0":
            node.replicas.future_logs.move(TP, "/a")
            await until(lambda: not node.replicas.future_logs.moving)
        node.produce(b"before")
        moves = node.replicas.future_logs
        disk.held = "LogFlush._write"
        moves.move(TP, "/b")
        await soon(lambda: disk.waiting_count == 1)  # the copy is being flushed
        old = node.log
        disk.no_room()
        node.produce(b"refused")
        await until(lambda: node.log is not old)
        node.produce(b"after", acks=-1)
        assert node.log.high_watermark == 2
        disk.release()
        await until(lambda: not moves.moving)
        assert [value for _, _, value in await node.values()] == [b"before", b"after"]
        await node.stop()

    run(work, directories="/a,/b")


def test_a_copy_that_is_opened_again_as_it_takes_its_place_stays() -> None:
    """KIP-113: it is the log by then, and no copy any more that nobody needs."""

    async def work(node: ReplicaNode, disk: HeldDisk) -> None:
        if node.log.directory != "/a/t-0":
            node.replicas.future_logs.move(TP, "/a")
            await until(lambda: not node.replicas.future_logs.moving)
        node.produce(b"before")
        moves = node.replicas.future_logs
        disk.held = "OffsetCheckpoint.write"
        moves.move(TP, "/b")
        await soon(lambda: node.log.directory == "/b/t-0" and disk.waiting_count > 0)
        copy = node.log
        disk.no_room()
        node.produce(b"refused")
        await until(lambda: node.log is not copy)
        node.produce(b"after", acks=-1)
        disk.release()
        await until(lambda: not moves.moving)
        await asyncio.sleep(0.1)
        assert node.log.directory == "/b/t-0"
        assert disk.exists("/b/t-0/00000000000000000000.log")
        assert [value for _, _, value in await node.values()] == [b"before", b"after"]
        await node.stop()

    run(work, directories="/a,/b")


def test_nothing_else_touches_the_files_of_a_log_while_it_is_opened_again() -> None:
    """What compaction has completed is taken back first: the recovery would put it in service."""

    async def work(node: ReplicaNode, disk: HeldDisk) -> None:
        node.produce(b"cut off")
        old = node.log
        old.truncate_fully_and_start_at(0)
        assert old.local.removal.waiting()
        output = CleanedSegment(disk, old.directory, 0, created_ms=0, interval_bytes=4096)
        old.local.complete_output(output, modified_ms=0)
        assert disk.exists(f"{old.directory}/{0:020d}.log.swap")
        disk.held = "LogLoader.load"
        disk.no_room()
        node.produce(b"refused")
        await soon(lambda: disk.waiting_count == 1)
        assert not old.local.removal.waiting()
        assert not old.local.has_completed_output
        names = disk.list_directory(old.directory)
        assert not [name for name in names if name.endswith((".swap", ".cleaned"))]
        disk.release()
        await until(lambda: node.log is not old)
        await node.stop()

    run(work)


@pytest.mark.parametrize("thread", ["LocalLog._settle_cut", "_flush_each"])
def test_a_log_is_opened_again_when_no_thread_writes_its_files_any_more(thread: str) -> None:
    """A cut that is settled writes indexes, and a checkpoint leader epochs, of the old log."""

    async def work(node: ReplicaNode, disk: HeldDisk) -> None:
        node.produce(b"one")
        node.produce(b"two")
        old, directory = node.log, node.logs.directories[0]
        await old.flush()
        disk.held = thread
        if thread == "_flush_each":
            old.leader_epochs.assign(7, 1)
            waiting = asyncio.ensure_future(
                node.logs.checkpointing.write_recovery_points(directory)
            )
        else:
            old.truncate_to(1)
            waiting = asyncio.ensure_future(old.settle_cut())
        await soon(lambda: disk.waiting_count == 1)
        loads = []
        run_now = disk.run

        async def noting(function: Any, *args: Any, **kwargs: Any) -> Any:
            if function.__qualname__ == "LogLoader.load":
                loads.append(waiting.done())
            return await run_now(function, *args, **kwargs)

        disk.run = noting  # type: ignore[method-assign]
        disk.no_room()
        node.produce(b"refused")
        await asyncio.sleep(1)
        assert not loads
        disk.release()
        await until(lambda: node.log is not old)
        await asyncio.gather(waiting, return_exceptions=True)
        await node.stop()

    run(work)


@pytest.mark.parametrize("suffix", [".cleaned", ".swap", ".deleted"])
def test_files_that_others_remove_meanwhile_cost_no_directory(suffix: str) -> None:
    """LOG-11: compaction discards its output, and old segments are due, while a log is opened."""

    async def work(node: ReplicaNode, disk: HeldDisk) -> None:
        node.produce(b"kept")
        old, folder = node.log, node.log.directory
        leftovers = [f"{folder}/{offset:020}.log{suffix}" for offset in (7, 8)]
        leftovers += [f"{folder}/{6:020}.log.cleaned"]  # what is above it is not complete
        for path in leftovers:
            disk.open(path, create=True).close()
        remove = disk.remove

        def remove_after_another(path: str) -> None:
            if path in leftovers:
                remove(path)
            remove(path)

        disk.remove = remove_after_another  # type: ignore[method-assign]
        disk.no_room()
        node.produce(b"refused")
        await until(lambda: node.log is not old)
        assert [value for _, _, value in await node.values()] == [b"kept"]
        await node.stop()

    run(work)


def test_a_log_opened_again_is_settled_if_it_was_cut() -> None:
    """REC-5: nothing is appended in the place of what was cut before that is safe."""

    async def work(node: ReplicaNode, disk: HeldDisk) -> None:
        for value in (b"a", b"b", b"c"):
            node.produce(value)
        await node.log.flush()
        await node.logs.checkpointing.write_recovery_points(node.logs.directories[0])
        old = node.log
        old.truncate_to(1)
        disk.no_room()
        node.produce(b"refused")
        await until(lambda: node.log is not old)
        assert node.log.is_cut_unnoted
        await node.logs.note_truncations([node.log])
        assert not node.log.is_cut_unnoted
        assert node.log.recovery_point == 1
        await node.stop()

    run(work)


def test_an_isr_is_asked_for_again_when_the_log_is_back() -> None:
    """REP-8: a wish given up while the log was out of service must not block all later ones."""

    async def work(node: ReplicaNode, disk: HeldDisk) -> None:
        wishes: list[tuple[int, ...]] = []

        class Wishes:
            def propose(self, partition: object, isr: tuple[int, ...]) -> None:
                wishes.append(isr)

        node.replicas.alter_partition_manager = Wishes()
        node.partition()._propose((0, 1))
        assert wishes == [(0, 1)]
        old = node.log
        disk.no_room()
        node.produce(b"refused")
        await until(lambda: node.log is not old)
        assert wishes == [(0, 1), (0, 1)]
        await node.stop()

    run(work)


def test_followers_are_not_blamed_for_a_log_that_was_out_of_service() -> None:
    """REP-6: they could not fetch; the ISR must not shrink to the leader for that."""

    async def work(node: ReplicaNode, disk: HeldDisk) -> None:
        wishes: list[tuple[int, ...]] = []

        class Wishes:
            def propose(self, partition: object, isr: tuple[int, ...]) -> None:
                wishes.append(isr)

        node.replicas.alter_partition_manager = Wishes()
        await node.learn([led_by(0, 0, isr=(0, 1), partition_epoch=1)])
        node.produce(b"a")
        partition, now_ms = node.partition(), node.clock.monotonic_ms
        partition.follower_fetched(1, 1, 0, 0, now_ms())
        disk.held = "LogLoader.load"
        disk.no_room()
        old = node.log
        node.produce(b"refused")
        await asyncio.sleep(40)
        partition.check_isr_shrink(now_ms())
        disk.release()
        await until(lambda: node.log is not old)
        node.produce(b"b")
        partition.check_isr_shrink(now_ms())
        assert wishes == []
        await asyncio.sleep(31)
        partition.check_isr_shrink(now_ms())
        assert wishes == [(0,)]
        await node.stop()

    run(work)

"""A topic that is made again under its name is not taken for the one that was deleted."""

import asyncio
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from barnabas_broker.env.disk import Buffer, RealDisk
from barnabas_broker.log.manager.log_directory import LogDirectory
from barnabas_broker.log.manager.log_manager import LogManager
from barnabas_broker.log.manager.offset_checkpointing import OffsetCheckpointing
from barnabas_broker.log.partition_log import PartitionLog
from barnabas_broker.metadata.records import RemoveTopicRecord, TopicRecord
from barnabas_protocol.api import ApiKey
from barnabas_protocol.messages import delete_records
from barnabas_protocol.records.record import Record, encode_batch
from tests.broker.log.cleaner_fixtures import Bench, put
from tests.broker.log.manager_fixtures import (
    TOPIC_ID,
    append,
    crash,
    manager_over,
    partition,
    records_of,
    run_with,
    topic_config,
)
from tests.simulation import requests
from tests.support.raw_client import RawClient
from tests.support.replica_nodes import TOPIC_ID as OLD_ID
from tests.support.replica_nodes import TP, Links, ReplicaNode, led_by, topic_records, until
from tests.support.simulated_broker import End, Life, Machine
from tests.support.simulated_disk import SimulatedDisk
from tests.support.virtual_loop import run_virtual

TOPIC = "orders"
NEW_ID = bytes(15) + b"x"


async def delete_records_below(client: RawClient, offset: int) -> None:
    request = delete_records.DeleteRecordsRequest(
        topics=[
            delete_records.DeleteRecordsTopic(
                name=TOPIC,
                partitions=[
                    delete_records.DeleteRecordsPartition(partition_index=0, offset=offset)
                ],
            )
        ],
        timeout_ms=10_000,
    )
    response = await client.call(ApiKey.DELETE_RECORDS, 2, request)
    assert response.topics[0].partitions[0].error_code == 0


@pytest.mark.parametrize("appended_again", [3, 12])
def test_a_kill_after_a_topic_was_made_again_loses_nothing(appended_again: int) -> None:
    """REC-2, TOP-14: the old topic's start offset, once in the checkpoint, is not the new one's."""
    machine = Machine(1)

    async def again(life: Life) -> None:
        async with await life.connect() as client:
            await requests.create_topic(client, TOPIC)
            for _ in range(10):
                await requests.append(client, requests.append_request(TOPIC, 0, [b"old"]))
            await delete_records_below(client, 8)
            await asyncio.sleep(120)  # the checkpoints are written
            assert await requests.delete_topic(client, TOPIC) == 0
            await requests.create_topic(client, TOPIC)
            for number in range(appended_again):
                request = requests.append_request(TOPIC, 0, [b"new"])
                assert await requests.append(client, request) == (0, number)
            life.machine.disk.operations_left = 1
            requests.send_append(client, requests.append_request(TOPIC, 0, [b"cut off"]))
            await asyncio.sleep(3600)

    async def look(life: Life) -> None:
        async with await life.connect() as client:
            records = await requests.read_all(client, TOPIC, 0)
            values = [(record.offset, record.value) for record in records]
            assert values[:appended_again] == [(n, b"new") for n in range(appended_again)]

    assert not machine.live(again, end=End.KILL, operations=1 << 40)
    machine.live(look)


def test_checkpoints_that_a_crash_left_outdated_are_put_right_at_the_start(tmp_path: Any) -> None:
    """TOP-14: the crash came between the deletion and the checkpoints."""

    async def leave_traces(manager: LogManager) -> None:
        (directory,) = manager.directories
        for checkpoint in (directory.log_start_offsets, directory.recovery_points):
            await manager.disk.run(checkpoint.write, {partition("t"): 2})

    run_with(manager_over(tmp_path), leave_traces, is_clean_stop=False)

    async def make_again(manager: LogManager) -> PartitionLog:
        log = manager.create(partition("t"), NEW_ID, topic_config())
        for _ in range(4):
            append(log, (b"k", b"v"))
        return log

    run_with(manager_over(tmp_path), make_again, is_clean_stop=False)

    async def look(manager: LogManager) -> list[int]:
        return [offset for offset, _, _ in await records_of(manager.logs[partition("t")])]

    assert run_with(manager_over(tmp_path), look) == [0, 1, 2, 3]


@pytest.mark.parametrize("change", ["made again", "cut"])
def test_an_old_high_watermark_is_not_that_of_what_comes_after_it(
    tmp_path: Path, change: str
) -> None:
    """REP-5: after a kill the followers may lack what is below it; a leader would serve that."""

    async def work(manager: LogManager) -> None:
        log = manager.create(partition("t"), TOPIC_ID, topic_config())
        for _ in range(4):
            append(log, (b"k", b"old"))
        await manager.checkpointing.write_all(manager.directories[0])
        if change == "cut":
            log.truncate_to(1)
            await manager.note_truncations([log])
        else:
            await manager.delete(partition("t"))
            await manager.note_deletions()
            log = manager.create(partition("t"), NEW_ID, topic_config())
        for _ in range(4):
            batch = encode_batch([Record(0, 1, b"k", b"new")])
            log.append_as_leader(bytearray(batch), 0, now_ms=1)
        log.write_staged()

    run_with(manager_over(tmp_path), work, is_clean_stop=False)

    async def look(manager: LogManager) -> tuple[int, int]:
        log = manager.logs[partition("t")]
        return log.high_watermark, log.log_end_offset

    assert run_with(manager_over(tmp_path), look) == ((1, 5) if change == "cut" else (0, 4))


def test_the_high_watermark_of_a_log_that_the_power_has_cut_is_lowered() -> None:
    """REP-5: what comes to those offsets next is not what was committed there."""

    async def start(disk: SimulatedDisk) -> PartitionLog:
        manager = manager_over(Path("/data"), disk=disk)
        await manager.load(lambda topic, topic_id: topic_config())
        managers.append(manager)
        return manager.create(partition("t"), TOPIC_ID, topic_config())

    async def scenario() -> None:
        disk = SimulatedDisk()
        log = await start(disk)
        append(log, (b"k", b"flushed"))
        await log.flush()
        append(log, (b"k", b"lost"))
        await managers[0].checkpointing.write_all(managers[0].directories[0])
        disk.crash(keep_some=False)
        log = await start(disk)
        assert (log.high_watermark, log.log_end_offset) == (1, 1)
        batch = encode_batch([Record(0, 1, b"k", b"not committed")])
        log.append_as_leader(bytearray(batch), 0, now_ms=1)
        log.write_staged()
        crash(managers[1])
        log = await start(disk)
        assert (log.high_watermark, log.log_end_offset) == (1, 2)

    managers: list[LogManager] = []
    asyncio.run(scenario())


def test_a_checkpoint_under_way_during_a_deletion_does_not_bring_its_offset_back(
    tmp_path: Any,
) -> None:
    """SEG-9: what is written last is what was known last."""

    async def work(manager: LogManager) -> dict[object, int]:
        log = manager.create(partition("t"), TOPIC_ID, topic_config())
        for _ in range(4):
            append(log, (b"k", b"v"))
        log.advance_log_start_offset(3)
        (directory,) = manager.directories
        writing = asyncio.create_task(manager.checkpointing.write_log_start_offsets(directory))
        await asyncio.sleep(0)
        await manager.delete(partition("t"))
        await manager.note_deletions()
        await writing
        return dict(directory.log_start_offsets.read())

    assert run_with(manager_over(tmp_path), work) == {}


def test_a_stop_that_cancels_a_deletion_does_not_write_its_checkpoint_a_second_time(
    tmp_path: Path,
) -> None:
    """STOP-8: both would write the same temporary file; one of them may rename the other's half."""
    begun, may_write = threading.Event(), threading.Event()
    writing: set[str] = set()
    overlaps: list[str] = []

    class SlowDisk(RealDisk):
        def write_atomically(self, path: str, data: Buffer) -> None:
            if path in writing:
                overlaps.append(path)
            writing.add(path)
            if path.endswith("recovery-point-offset-checkpoint"):
                begun.set()
                assert may_write.wait(20)
            super().write_atomically(path, data)
            writing.discard(path)

    async def work(manager: LogManager) -> None:
        append(manager.create(partition(TOPIC), TOPIC_ID, topic_config()), (b"k", b"v"))
        manager.create(partition(TOPIC, 1), TOPIC_ID, topic_config())
        await manager.delete(partition(TOPIC))
        deletion = asyncio.create_task(manager.note_deletions())
        async with asyncio.timeout(20):
            while not begun.is_set():
                await asyncio.sleep(0)

        async def stop() -> None:
            deletion.cancel()
            await asyncio.gather(deletion, return_exceptions=True)
            await manager.close(7)

        stopping = asyncio.create_task(stop())
        for _ in range(100):
            await asyncio.sleep(0)
        assert not deletion.done()
        may_write.set()
        await stopping

    run_with(manager_over(tmp_path, disk=SlowDisk()), work)
    assert overlaps == []


class Room:
    """Whether log start offsets can be written."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_there = True
        write = OffsetCheckpointing.write_log_start_offsets

        async def write_if_room(item: OffsetCheckpointing, directory: LogDirectory) -> bool:
            return self.is_there and await write(item, directory)

        monkeypatch.setattr(OffsetCheckpointing, "write_log_start_offsets", write_if_room)


def test_a_deletion_that_found_no_room_to_be_noted_is_noted_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """TOP-14, VOL-4: until then no log of that name is made, nor does anything else wait."""
    room = Room(monkeypatch)

    async def work() -> None:
        node = await ReplicaNode(0, Links()).start()
        await node.learn([*topic_records(), led_by(0, 0)])
        for _ in range(3):
            node.produce(b"old")
        await node.log.delete_records(2)
        (directory,) = node.logs.directories
        await node.logs.checkpointing.write_all(directory)
        room.is_there = False
        made_again = replace(led_by(0, 0), topic_id=NEW_ID)
        topic = TopicRecord(name=TP.topic, topic_id=NEW_ID)
        another = replace(made_again, partition=1)
        await node.learn([RemoveTopicRecord(topic_id=OLD_ID), topic, made_again, another])
        await asyncio.sleep(1)
        assert directory.log_start_offsets.read() == {TP: 2}
        assert list(node.replicas.partitions) == [partition(TP.topic, 1)]
        room.is_there = True
        await until(lambda: TP in node.replicas.partitions)
        assert TP not in directory.log_start_offsets.read()
        assert not node.logs.has_unnoted_deletions
        await node.stop()

    run_virtual(work())


def test_a_log_that_is_gone_and_could_not_be_forgotten_at_the_start_is_made_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """TOP-14, VOL-4: nobody has deleted anything in this run, and yet it is tried again."""
    room = Room(monkeypatch)

    async def work() -> None:
        node = await ReplicaNode(0, Links()).start()
        await node.learn([*topic_records(), led_by(0, 0)])
        node.produce(b"old")
        await node.stop()
        node.disk.remove_tree("/data/t-0")
        room.is_there = False
        again = await ReplicaNode(0, Links(), disk=node.disk).start()
        await again.learn([*topic_records(), led_by(0, 0)])
        await asyncio.sleep(1)
        assert TP not in again.replicas.partitions
        room.is_there = True
        await until(lambda: TP in again.replicas.partitions)
        await again.stop()

    run_virtual(work())


def test_the_start_of_a_log_that_lost_its_records_does_not_hide_what_comes_after() -> None:
    """REC-2: the power took the records up to where the log started, and a kill follows."""

    async def work() -> None:
        bench = Bench()
        log = await bench.open(topic_config())
        for _ in range(3):
            put(log, (b"k", b"lost"))
        await log.delete_records(2)
        (directory,) = bench.manager.directories
        bench.disk.sync_directory(log.directory)
        assert await bench.manager.checkpointing.write_all(directory)
        bench.disk.crash(keep_some=False)
        bench.manager = bench.new_manager()
        log = await bench.open(topic_config())
        assert (log.log_start_offset, log.log_end_offset) == (0, 0)
        for _ in range(4):
            put(log, (b"k", b"new"))
        for directory in bench.manager.directories:
            directory.close()  # a kill: what is written is there
        bench.manager = bench.new_manager()
        log = await bench.open(topic_config())
        assert (log.log_start_offset, log.log_end_offset) == (0, 4)

    asyncio.run(work())

"""The periodic tasks of the log manager, on virtual time."""

import asyncio
from functools import partial

import pytest

from barnabas_broker.log.manager import log_tasks
from barnabas_broker.log.validator import HeavyBatchError
from barnabas_protocol.errors import KafkaError
from barnabas_protocol.records.record import Record, encode_batch
from tests.broker.log.cleaner_fixtures import DAY_MS, NAME, Bench, compacted, contents, put, seal
from tests.support.simulated_disk import SimulatedDisk
from tests.support.virtual_loop import run_virtual

MIB = 1024 * 1024


def large(log, size, count=1):
    """Append batches of about `size` bytes."""
    for _ in range(count):
        batch = bytearray(encode_batch([Record(0, 1, b"k", bytes(size))]))
        try:
            log.append_as_leader(batch, 0, now_ms=1)
        except HeavyBatchError as heavy:  # of a compacted topic, as the broker does in a thread
            log.append_as_leader(batch, 0, now_ms=1, checked=heavy.check())
        log.write_staged()


def tasks_of(bench):
    return bench.manager.tasks


def test_a_tail_above_the_limit_is_flushed_and_its_recovery_point_written():
    """SEG-8: recovery after a crash scans no more than barnabas.flush.bytes of a log."""

    async def main():
        bench = Bench(barnabas_flush_bytes=str(MIB))
        log = await bench.open()
        large(log, 1000)
        await tasks_of(bench).flush()
        assert log.recovery_point == 0
        large(log, 400_000, 3)
        await tasks_of(bench).flush()
        assert log.recovery_point == log.log_end_offset == 4
        path = "/data/recovery-point-offset-checkpoint"
        assert bench.disk.read_bytes(path) == b"0\n1\ncompacted 0 4\n"
        assert bench.disk.read_bytes(f"{log.directory}/leader-epoch-checkpoint") == b"0\n1\n0 0\n"

    asyncio.run(main())


def test_many_tails_below_the_limit_are_bounded_together():
    """SEG-8: the longest go first, until all together are a few times the limit."""

    async def main():
        bench = Bench(barnabas_flush_bytes=str(MIB))
        await bench.open()
        logs = [
            bench.manager.create(NAME._replace(partition=number), bytes(16), compacted())
            for number in range(1, 9)
        ]
        for number, log in enumerate(logs):
            large(log, 500_000 + number * 50_000)
        await tasks_of(bench).flush()
        left = sum(log.unflushed_bytes for log in logs)
        assert 3 * MIB < left <= 4 * MIB
        assert logs[7].unflushed_bytes == 0
        assert logs[0].unflushed_bytes > 0

    asyncio.run(main())


def test_a_flush_round_looks_at_no_log_before_one_can_be_due(monkeypatch):
    """Design section 4: idle costs nothing, however many partitions there are."""

    async def main():
        bench = Bench(barnabas_flush_bytes=str(MIB))
        log = await bench.open()
        large(log, 1000)
        await tasks_of(bench).flush()
        looked = 0
        each_log = log_tasks.LogTasks.each_log

        def counted(tasks):
            nonlocal looked
            looked += 1
            return each_log(tasks)

        monkeypatch.setattr(log_tasks.LogTasks, "each_log", counted)
        large(log, 400_000)
        await tasks_of(bench).flush()
        assert (looked, log.recovery_point) == (0, 0)
        large(log, 400_000, 2)
        await tasks_of(bench).flush()
        assert (looked, log.recovery_point) == (1, 4)
        bench.clock.advance(log_tasks.FLUSH_LOOK_MS)
        await tasks_of(bench).flush()
        assert looked == 2

    asyncio.run(main())


def test_flush_ms_bounds_how_long_a_record_waits():
    """SEG-8: flush.ms, counted from when the record was first seen."""

    async def main():
        bench = Bench()
        log = await bench.open(compacted(flush_ms=3000))
        put(log, (b"k", b"v"))
        for advance_ms, expected in ((0, 0), (2999, 0), (1, 1)):
            bench.clock.advance(advance_ms)
            await tasks_of(bench).flush()
            assert log.recovery_point == expected

    asyncio.run(main())


def test_retention_runs_over_all_logs_and_spares_what_is_young():
    """SEG-10, SEG-12: segments go, the log start rises, files wait for their delay."""

    async def main():
        bench = Bench()
        log = await bench.open(compacted(cleanup_policy=frozenset({"delete"}), retention_ms=5000))
        now_ms = bench.clock.wall_ms()
        for age_ms in (9000, 8000, 100):
            put(log, (b"k", b"v"), timestamp=now_ms - age_ms)
            await seal(log)
        await tasks_of(bench).retain()
        assert (log.log_start_offset, len(contents(log))) == (2, 1)
        names = bench.disk.list_directory(log.directory)
        assert sum(name.endswith(".log.deleted") for name in names) == 2
        await tasks_of(bench).write_log_start_offsets()
        path = "/data/log-start-offset-checkpoint"
        assert bench.disk.read_bytes(path) == b"0\n1\ncompacted 0 2\n"

    asyncio.run(main())


def test_compacted_and_deleted_logs_get_both():
    """REC-12."""

    async def main():
        bench = Bench()
        both = frozenset({"compact", "delete"})
        log = await bench.open(compacted(cleanup_policy=both, retention_ms=5000))
        now_ms = bench.clock.wall_ms()
        put(log, (b"old", b"v"), timestamp=now_ms - 9000)
        await seal(log)
        put(log, (b"k", b"1"), (b"k", b"2"), timestamp=now_ms)
        await seal(log)
        await tasks_of(bench).retain()
        assert await bench.manager.cleaner.clean_once()
        assert contents(log) == [(2, b"k", b"2")]

    asyncio.run(main())


def test_idle_producers_are_forgotten():
    """TXL-4: producer.id.expiration.ms."""

    async def main():
        bench = Bench(producer_id_expiration_ms="1000")
        log = await bench.open()
        put(log, (b"k", b"v"), producer=(5, 0, 0), timestamp=bench.clock.wall_ms())
        bench.clock.advance(999)
        await tasks_of(bench).expire_producers()
        assert list(log.producer_state.producers) == [5]
        bench.clock.advance(1)
        await tasks_of(bench).expire_producers()
        assert list(log.producer_state.producers) == []

    asyncio.run(main())


def test_producers_of_old_records_are_forgotten_when_they_are_silent() -> None:
    """TXL-4: as who copies a topic sends them; until then a repeated batch is a duplicate."""

    async def main() -> None:
        bench = Bench(producer_id_expiration_ms="1000")
        log = await bench.open()
        old_ms = bench.clock.wall_ms() - 10 * DAY_MS
        put(log, (b"k", b"v"), producer=(5, 0, 0), timestamp=old_ms)
        await tasks_of(bench).expire_producers()
        put(log, (b"k", b"v"), producer=(5, 0, 0), timestamp=old_ms)
        assert log.log_end_offset == 1
        bench.clock.advance(500)
        put(log, (b"k", b"w"), producer=(5, 0, 1), timestamp=old_ms)
        log.truncate_to(1)
        bench.clock.advance(500)
        await tasks_of(bench).expire_producers()
        assert list(log.producer_state.producers) == [5]
        bench.clock.advance(500)
        await tasks_of(bench).expire_producers()
        assert list(log.producer_state.producers) == []

    asyncio.run(main())


def test_idle_producers_are_looked_for_as_often_as_the_setting_says() -> None:
    """TXL-4: producer.id.expiration.check.interval.ms, Kafka's setting for its own tests."""

    async def main() -> None:
        bench = Bench(
            producer_id_expiration_ms="1000", producer_id_expiration_check_interval_ms="1"
        )
        log = await bench.open()
        put(log, (b"k", b"v"), producer=(5, 0, 0), timestamp=bench.clock.wall_ms())
        bench.clock.advance(1000)
        tasks_of(bench).start()
        async with asyncio.timeout(10):
            while log.producer_state.producers:
                await asyncio.sleep(0.001)
        await tasks_of(bench).stop()

    asyncio.run(main())


def test_one_failing_log_does_not_end_a_round():
    """SEG-9, LOG-11: its directory goes offline; a closed log is passed over."""

    async def main():
        bench = Bench()
        log = await bench.open()
        other = bench.manager.create(NAME._replace(partition=1), bytes(16), compacted())
        await log.close()
        await tasks_of(bench).retain()
        assert not bench.manager.directories[0].is_offline
        put(other, (b"k", b"v"))
        bench.disk.fail("sync")
        await tasks_of(bench).guarded(other, other.flush())
        assert bench.manager.directories[0].is_offline
        assert bench.manager.logs == {}
        try:
            put(other, (b"k", b"v"))
            raise AssertionError("an offline log took a batch")
        except KafkaError:
            pass

    asyncio.run(main())


def test_all_tasks_run_on_their_schedule_and_stop():
    """SEG-9, REP-5: first round after 30 s, then at each interval; stopping waits for all."""

    async def main():
        bench = Bench(log_cleaner_backoff_ms="1000")
        log = await bench.open(compacted(file_delete_delay_ms=1000))
        put(log, (b"a", b"0"), (b"a", b"1"))
        await seal(log)
        await bench.manager.delete(NAME._replace(partition=9))
        bench.manager.start_tasks()
        bench.manager.start_tasks()
        await asyncio.sleep(6)
        path = "/data/replication-offset-checkpoint"
        assert bench.disk.read_bytes(path) == b"0\n1\ncompacted 0 2\n"
        assert contents(log) == [(1, b"a", b"1")]
        assert not bench.disk.exists("/data/recovery-point-offset-checkpoint")
        await asyncio.sleep(26)
        assert bench.disk.exists("/data/recovery-point-offset-checkpoint")
        await bench.manager.close(3)
        assert bench.disk.exists("/data/.kafka_cleanshutdown")
        assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []

    run_virtual(main())


class ThreadedDisk(SimulatedDisk):
    """What was begun goes on when its caller is cancelled, as in a thread."""

    def __init__(self):
        super().__init__()
        self.running = []

    async def _in_thread(self, call):
        self.running.append(call)
        await asyncio.sleep(1)
        try:
            return self._call(call)
        finally:
            self.running.remove(call)


def test_the_stop_waits_for_the_checkpoint_that_is_being_written():
    """STOP-8, REC-4: or both would write the same temporary file, and the marker might be lost."""

    async def main():
        bench = Bench(ThreadedDisk())
        log = await bench.open()
        bench.manager.start_tasks()
        put(log, (b"a", b"0"))
        log.advance_high_watermark(1)
        async with asyncio.timeout(20):
            while not bench.disk.running:
                await asyncio.sleep(0.1)
        await bench.manager.tasks.stop()
        assert bench.disk.running == []
        await bench.manager.close()
        assert bench.disk.exists("/data/.kafka_cleanshutdown")

    run_virtual(main())


@pytest.mark.interpreted
def test_a_deleted_log_lets_go_of_its_files_on_the_loop():
    """TOP-14: timers and caches are the loop's; a thread that touches them corrupts them."""

    async def main():
        bench = Bench()
        log = await bench.open()
        put(log, (b"a", b"0"))
        await bench.manager.delete(NAME)
        in_thread = []

        async def run(function, *args):
            in_thread.append(function)
            log.release_files = lambda: in_thread.append("release")
            return bench.disk._call(partial(function, *args))

        released = []
        log.release_files = lambda: released.append(log)
        bench.disk.run = run
        await bench.manager.removals.remove_due(2**62)
        assert released == [log]
        assert in_thread == [bench.disk.remove_tree]

    asyncio.run(main())

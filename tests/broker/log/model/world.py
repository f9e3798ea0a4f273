"""One broker's logs on a stepping disk, driven by actions and compared with the model.

What a start may find: after a kill, all that was written; after a power cut, at least what was
promised (the recovery point as it was told at any time); never anything that was not appended,
and never a hole. From there on the log must be just what was found, and answer every question as
the model does (`checks.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import cache
from typing import Any

from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.config.topic import LogConfig
from barnabas_broker.log.errors import LogDirectoryError
from barnabas_broker.log.import_directory import import_partition, inspect_partition
from barnabas_broker.log.manager.log_manager import LogManager
from barnabas_broker.log.partition_log import PartitionLog
from barnabas_broker.log.tail_cache import TailCache
from barnabas_broker.replication.future_log import FutureLogs
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import ZERO_UUID, TopicPartition
from tests.broker.log.model import model
from tests.broker.log.model.checks import Wrong, check_everything, newest_offsets, read_all
from tests.broker.log.model.model import Batch
from tests.broker.log.model.stepping_disk import SteppingDisk
from tests.support.simulated_random import SimulatedRandom
from tests.support.virtual_loop import VirtualClock

DIRECTORIES = ("/a", "/b")
# What may be answered at any time: the log is out of service, or was replaced meanwhile.
_PASSING = (
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.POLICY_VIOLATION,
)


class Replica:
    """What `FutureLogs` needs of a partition."""

    def __init__(self, topic_partition: TopicPartition, topic_id: bytes, log: PartitionLog) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log = log


class JumpingClock(VirtualClock):
    """A clock that may be set."""

    wall_offset_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.wall_offset_ms


class World:
    """The disk, the process on it, and the model."""

    def __init__(self, seed: int, *, has_long_name: bool = False) -> None:
        self.random = SimulatedRandom(seed)
        loop = asyncio.get_running_loop()
        self.clock = JumpingClock(loop)
        self.disk = SteppingDisk(SimulatedRandom(seed + 1), self.clock)  # type: ignore[arg-type]
        for path in (*DIRECTORIES, "/import"):
            self.disk.make_directories(path)
        draw = self.random.integer
        self.disk.forgets_directories = draw(3) == 0
        self.disk.reorders_writes = draw(4) == 0
        # Else only what has no index in memory is read in a thread.
        self.disk.is_cold = seed % 3 == 1
        name = "t" * (249 if has_long_name else 5)
        self.name = TopicPartition(name, 0)
        self.incarnation = 0
        self.config = self.draw_config()
        self.cache_bytes = (0, 1 << 16)[draw(2)]
        # Whether the high watermark stays behind until the followers have what is new.
        self.is_replicated = draw(3) == 0
        self.tasks: list[asyncio.Task[Any]] = []
        self.is_failed = False
        self.next_value = 0
        self.retained_ms = 0  # the latest time that retention went by
        self._forget()

    # The model.

    def _forget(self) -> None:
        """A topic that was never written."""
        self.batches: list[Batch] = []
        self.ever: dict[bytes, Batch] = {}  # all that the log has held at some time
        self.start = self.start_floor = 0
        self.start_highest = 0  # a crash may lower the start, but not that of its epoch
        self.empty_until = 0  # where an empty segment behind a wide gap begins
        self.promised = self.written = 0
        self.high_watermark = self.high_watermark_highest = 0
        self.committed = 0  # a start may find an older high watermark, or that of another directory
        self.was_compacted = self.lost_epochs = self.is_restarted = self.was_moved = False
        self.remembered_directory = ZERO_UUID
        self.cut_to: int | None = None  # while a truncation is not settled
        self.may_delete_below = 0
        # Whose append has failed, or which a power cut took and another one may bring back.
        self.maybe: list[Batch] = []
        self.epoch = 0
        self.may_be_gone: set[int] = set()  # newest records of a key, since what was newer was cut
        self.may_forget = False  # producers, the oldest of whose batches are gone

    @property
    def topic_id(self) -> bytes:
        return bytes([1 + self.incarnation]) * 16

    @property
    def end(self) -> int:
        """Where the log should end."""
        return max(self.batches[-1].end if self.batches else 0, self.start, self.empty_until)

    @property
    def log(self) -> PartitionLog:
        return self.replica.log

    def draw_config(self) -> LogConfig:
        """Settings of the topic."""
        draw = self.random.integer
        policy = ("delete", "delete", "compact", "compact,delete")[draw(4)]
        return _config(
            policy,
            segment_bytes=(400, 900, 2500, 1 << 20)[draw(4)],
            index_interval_bytes=(64, 200, 600)[draw(3)],
            segment_index_bytes=(48, 1 << 20, 1 << 20)[draw(3)],
            preallocate=draw(3) == 0,
            retention_ms=(-1, 3_600_000)[draw(2)],
            retention_bytes=(-1, -1, 2000)[draw(3)],
            file_delete_delay_ms=(0, 1000)[draw(2)],
            flush_messages=(2**63 - 1, 2**63 - 1, 1, 4)[draw(4)],
        )

    # Life.

    async def start_process(self) -> None:
        self.disk.start_process()
        self.is_failed = self.is_compacting = False
        self.manager = LogManager(
            _broker_config(), self.disk, self.clock, self.random, TailCache(self.cache_bytes)
        )
        self.manager.remembered_directory = lambda _: self.remembered_directory
        await self.manager.load(self._topic_config, self._topic_id)
        await self.manager.forget_lost()  # the controller has been told
        await self.manager.note_broker_epoch(1)  # it has registered
        offline = [d.path for d in self.manager.directories if d.is_offline]
        if offline:
            raise Wrong(f"offline after the start: {offline}")
        log = self.manager.logs.get(self.name)
        if log is None:
            log = self.manager.create(self.name, self.topic_id, self.config)
        self.replica = Replica(self.name, self.topic_id, log)
        self.moves = FutureLogs(self.manager, lambda _: self.replica, self.spawn)  # type: ignore[arg-type,return-value]

    def _topic_config(self, topic: str, topic_id: bytes) -> LogConfig | None:
        is_ours = (topic, topic_id) == (self.name.topic, self.topic_id)
        return self.config if is_ours else None

    def _topic_id(self, topic: str) -> bytes:
        return self.topic_id if topic == self.name.topic else ZERO_UUID

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Do it while the history goes on."""
        task = asyncio.get_running_loop().create_task(self.guarded(work))
        # A kill may come before its first step.
        task.add_done_callback(lambda _: work.close())
        self.tasks.append(task)

    async def guarded(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Failures of the disk take the log offline, and that is all they may do."""
        try:
            return await work
        except (OSError, LogDirectoryError):
            if self.manager.logs.get(self.name) is self.log:
                self.manager.take_offline(self.log.directory, OSError(5, "seen by the caller"))
        except KafkaError as error:
            if error.code not in _PASSING:
                raise Wrong(f"answered with {error!r}") from error
        return None

    async def settle(self) -> None:
        """Let all that is under way come to its end."""
        self.disk.held.clear()
        while self.tasks:
            tasks, self.tasks = self.tasks, []
            for task in tasks:
                await task
        self.watch()

    def watch(self) -> None:
        """Note what was promised, and see that nothing goes that must not."""
        log = self.log
        if self.manager.logs.get(self.name) is None or log.is_offline:
            self.is_failed = True
        elif self.cut_to is None:
            self.promised = max(self.promised, min(log.recovery_point, log.log_end_offset))
            self.written = max(self.written, min(log.log_end_offset, self.end))
        # Also of a log that has failed since: a checkpoint may say it.
        if log.log_start_offset > self.start:
            self._started_later(log.log_start_offset)

    def _started_later(self, start: int) -> None:
        now, config = max(self.clock.wall_ms(), self.retained_ms), self.config
        gone = [
            record
            for batch in self.batches
            for record in batch.records
            if self.start <= record.offset < start and record.offset >= self.may_delete_below
        ]
        if self.was_compacted:  # a segment is as old as what compaction has left of it
            left = newest_offsets(self.batches) - self.may_be_gone
            gone = [record for record in gone if record.offset in left]
        if gone and config.retention_bytes < 0:
            newest = max(record.timestamp for record in gone)
            is_expired = 0 <= config.retention_ms < now - newest
            if not is_expired or "delete" not in config.cleanup_policy:
                raise Wrong(f"retention deleted up to {start}, with a record of {now - newest} ms")
        self.start, self.may_forget = start, True
        if start > self.high_watermark:
            raise Wrong(f"the log starts at {start}, above the high watermark")
        self.start_highest = max(self.start_highest, start)

    # Crashes.

    async def crash(self, kind: int) -> None:
        """0: kill -9; 1: the power, without anything unsynced; 2: with some of it.

        Others may follow while the process starts again.
        """
        self.watch()
        self.tasks.clear()
        before = (self.start_floor, self.start)
        await self._end_process(kind)
        lost_power = kind > 0
        while self.random.integer(3) == 0:
            if await self._is_started_within(self.random.integer(80)):
                break
            kind = self.random.integer(3)
            lost_power = lost_power or kind > 0
            await self._end_process(kind)
        else:
            await self.start_process()
        await self._take_over(before, floor=self.promised if lost_power else self.written)

    async def _end_process(self, kind: int) -> None:
        await self.disk.kill()
        if kind:
            self.disk.crash(keep_some=kind == 2)
        self.disk.start_process()

    async def _is_started_within(self, turns: int) -> bool:
        """Start the process; whether that came to its end within some turns of the loop."""
        starting = asyncio.get_running_loop().create_task(self.start_process())
        for _ in range(turns):
            if starting.done():
                break
            await asyncio.sleep(0)
        if starting.done():
            await starting
            return True
        return False

    async def stop(self, then: Callable[[], None] | None = None) -> None:
        """A clean stop, perhaps something done to the disk, and a start."""
        await self.settle()
        self.moves.close()
        await self.settle()
        was_failed, start = self.is_failed, self.start
        await self.manager.close(1)
        was_failed = was_failed or any(d.is_offline for d in self.manager.directories)
        await self._end_process(0)
        if then is not None and not was_failed:
            await self.disk.run(then)
        await self.start_process()
        low = self.start_floor if was_failed or then == self.take_out_and_import else start
        await self._take_over((low, start), floor=self.written)
        if not was_failed:
            self.promised = max(self.promised, self.written)
            self.start_floor = self.start

    async def crash_while_stopping(self, turns: int, kind: int) -> None:
        """A stop that does not come to its end."""
        self.moves.close()
        stopping = asyncio.get_running_loop().create_task(self.manager.close(1))
        log = self.log
        for _ in range(turns):
            if stopping.done():
                break
            await asyncio.sleep(0)
            if not log.is_offline:
                self.promised = max(self.promised, min(log.recovery_point, log.log_end_offset))
        self.is_failed = True  # the manager may have let go of the log
        await self.crash(kind)

    async def _take_over(self, starts: tuple[int, int], floor: int) -> None:
        """Compare what a start has found with what it may find; the model goes on from there."""
        log = self.log
        if self.cut_to is not None:
            floor = min(floor, self.cut_to)
            if self.cut_to <= starts[1]:
                # All of it was to go when the disk failed: segments go one by one.
                starts = starts[0], max(starts[1], log.log_start_offset)
        self.cut_to = None
        if floor <= starts[1]:
            floor = 0  # all that was safe has been deleted since
        end, start = log.log_end_offset, log.log_start_offset
        is_far = self.is_far_base(end)
        if is_far and self.maybe:
            # What the power took in front of the gap may be there or not: the end does not say.
            found = {batch.raw for batch in await read_all(self, start, 1 << 20)}
            self.maybe = [one for one in self.maybe if one.end > end or one.raw in found]
        possible = [*self.batches, *self.maybe]
        # A log that has lost all it had may have lost what was below its start, too.
        lowest = min(starts[0], self.end if log.size_bytes else end)
        if self.was_moved:  # the batch in which a log starts is copied whole (docs/findings.md)
            holding = [b.header.base_offset for b in self.batches if b.end > lowest]
            lowest = min([lowest, *holding])
        if not lowest <= start <= max(starts[1], lowest):
            raise Wrong(f"the log starts at {start}, which is not within {starts}")
        if end < floor and not self._is_only_hole(end, floor):
            raise Wrong(f"the log ends at {end}: what is below {floor} was safe")
        top = possible[-1].end if possible else 0
        if end > max(top, self.start) and not is_far:
            raise Wrong(f"the log ends at {end}, more than was appended ({top})")
        self.empty_until = end if is_far else 0
        self.batches = [batch for batch in possible if batch.end <= end]
        last = self.batches[-1].end if self.batches else start
        if not self.was_compacted and start < end != last and not is_far:
            raise Wrong(f"the log ends at {end}, within a batch")
        if log.high_watermark > max(self.committed, start):
            raise Wrong(f"the high watermark is {log.high_watermark} after the start")
        self.maybe = [batch for batch in possible if batch.end > end]
        self.start = start
        self.start_floor = min(self.start_floor, start)
        self.written = self.end
        self.promised = min(self.promised, self.end)
        self.epoch = max((batch.header.leader_epoch for batch in self.batches), default=self.epoch)
        self.is_restarted = True
        self.high_watermark = log.high_watermark
        if not self.is_replicated:
            self.commit(end)
        await self.check()

    def _is_only_hole(self, start: int, end: int) -> bool:
        """Whether compaction may have left nothing there: then a log may end before it."""
        if not self.was_compacted:
            return False
        kept = newest_offsets(self.batches) - self.may_be_gone
        return not any(start <= offset < end for offset in kept)

    def is_far_base(self, end: int) -> bool:
        """Whether the log ends where an empty segment behind a wide gap begins."""
        known = [*self.batches, *self.maybe]
        has_gap = self.empty_until or any(batch.end > 2**31 for batch in known)
        return bool(has_gap) and end == self.log.segments.active.base_offset

    # Writing.

    def write(self, batch: Batch, append: Callable[[], object]) -> None:
        """Append a batch, as the given call does it; then it must be in the log."""
        log = self.log
        self.ever[batch.raw] = batch
        try:
            append()
            log.write_staged()
        except (LogDirectoryError, OSError):
            # It was written over what a power cut had taken, if that was still there.
            base_offset = batch.header.base_offset
            self.maybe = [other for other in self.maybe if other.end <= base_offset]
            self.maybe.append(batch)
            self.manager.take_offline(log.directory, OSError(5, "seen by the caller"))
            return
        if not log.is_offline:
            self.maybe.clear()
            self.batches.append(batch)
            self.written = batch.end
        if not self.is_replicated:
            self.commit(log.log_end_offset)

    def commit(self, offset: int) -> None:
        """Raise the high watermark: all followers have what is below."""
        self.log.advance_high_watermark(offset)
        self.high_watermark = max(self.high_watermark, min(offset, self.log.log_end_offset))
        self.high_watermark_highest = max(self.high_watermark_highest, self.high_watermark)
        self.committed = max(self.committed, self.high_watermark)

    async def truncate(self, offset: int) -> None:
        """As a follower does that has other records than its leader."""
        await self.settle()
        log = self.log
        if self.is_failed or not 0 <= offset < self.end:
            return
        offset, kept = self._expect_cut(offset)
        while log.truncate_to(log.truncation_step(offset)):
            await self.manager.note_truncations([log])
            if log.is_offline:
                return
        self.batches = kept
        self.may_be_gone = {gone for gone in self.may_be_gone if gone < offset}
        self.empty_until = 0
        self.start = min(self.start, offset)
        self.start_floor = min(self.start_floor, self.start)
        self.written, self.promised = self.end, min(self.promised, offset)
        self.high_watermark = min(self.high_watermark, offset)
        self.committed = min(self.committed, offset)
        self.cut_to = None
        self.is_restarted = True  # as far as producers are concerned
        self.epoch += 1

    async def truncate_and_crash(self, offset: int, kind: int) -> None:
        """As `truncate`, by a process or a machine that ends before the cut is noted."""
        await self.settle()
        if self.is_failed or not 0 <= offset < self.end:
            return
        offset, _ = self._expect_cut(offset)
        self.log.truncate_to(self.log.truncation_step(offset))
        await self.crash(kind)

    def _expect_cut(self, offset: int) -> tuple[int, list[Batch]]:
        """Note where a cut is about to be; returns the offset, and the batches that stay."""
        kept = [batch for batch in self.batches if batch.end <= offset]
        # A leader that is asked where to cut names the beginning of a batch.
        offset = kept[-1].end if kept else min(offset, self.start)
        if self.was_compacted and offset < self.high_watermark_highest:
            # What compaction took for the sake of what is cut is gone.
            known = {r.offset for b in self.batches for r in b.records}
            self.may_be_gone |= known - newest_offsets(self.batches)
            self.may_forget = True
        self.cut_to = offset
        return offset, kept

    async def delete_topic(self) -> None:
        """Delete the topic and make it anew, while threads are at work for the old one."""
        self.moves.dropped(self.name)
        await self.manager.delete(self.name)
        self.incarnation += 1
        self._forget()
        await self.manager.note_deletions()
        log = self.manager.create(self.name, self.topic_id, self.config)
        self.replica = Replica(self.name, self.topic_id, log)
        self.moves.requested_directories.clear()
        # The controller is told where it is: the old one may be left on a disk that failed.
        self.remembered_directory = self.manager.directory_of(log).directory_id

    async def compact(self) -> None:
        """A round of the cleaner."""
        self.was_compacted = True
        if not self.is_compacting:  # a broker's cleaner never makes two rounds at once
            self.is_compacting = True
            try:
                await self.manager.cleaner.clean_once()
            finally:
                self.is_compacting = False
        if self.manager.cleaner.uncleanable:
            raise Wrong(f"the log is left alone: {self.manager.cleaner.uncleanable}")

    async def checkpoint(self) -> None:
        """All three files, as they are written each minute."""
        for directory in self.manager.online_directories():
            start, incarnation = self.start, self.incarnation
            is_there = self.log.directory.startswith(directory.path)
            await self.manager.checkpointing.write_all(directory)
            is_there = is_there and self.log.directory.startswith(directory.path)
            if not directory.is_offline and is_there and incarnation == self.incarnation:
                self.start_floor = max(self.start_floor, min(start, self.start))

    def lose_epochs(self) -> None:
        """Remove the file of leader epochs."""
        path = self.log.leader_epochs.path
        if self.disk.exists(path):
            self.disk.remove(path)
            self.lost_epochs = True

    def take_out_and_import(self) -> None:
        """Leave of the partition what Kafka would, and import it."""
        folder = self.log.directory
        source = f"/import/{self.name.topic}-0"
        names = self.disk.list_directory(folder)
        for name in names:
            if not name.endswith((".log", ".txnindex")):
                self.disk.remove(f"{folder}/{name}")
        if not any(name.endswith(".log") for name in names):
            # Kafka creates the first segment with the log.
            self.disk.open(f"{folder}/{0:020d}.log", create=True).close()
        self.disk.rename(folder, source)
        found = inspect_partition(self.disk, source)
        imported = import_partition(
            self.disk,
            self.clock,
            self.random,
            found,
            DIRECTORIES[self.random.integer(2)],
            self.config,
            topic_id=self.topic_id,
        )
        self.disk.remove_tree(source)
        self._take_markers(imported.path)
        self.start_floor = 0
        self.lost_epochs = self.may_forget = True
        self.remembered_directory = ZERO_UUID  # as a topic that is created: in any directory
        self.high_watermark = self.committed = self.end  # what is imported counts as committed
        self.high_watermark_highest = max(self.high_watermark_highest, self.high_watermark)

    def _take_markers(self, path: str) -> None:
        """The import has aborted what was open: the model gets the markers that it wrote."""
        opened, end = self.opened(), self.end
        newest = max(n for n in self.disk.list_directory(path) if n.endswith(".log"))
        markers = [
            batch
            for batch in model.parse(self.disk.read_bytes(f"{path}/{newest}"))
            if batch.header.base_offset >= end
        ]
        ended = [marker.header.producer_id for marker in markers if marker.is_abort]
        if self.may_forget or self.was_compacted:
            # All that there was of some may be gone.
            opened = [*ended] if set(ended) <= set(opened) else opened
        if ended != opened or len(ended) != len(markers):
            raise Wrong(f"open are {opened}, and the import wrote {markers}")
        self.batches += markers
        self.maybe.clear()
        self.ever.update((marker.raw, marker) for marker in markers)
        self.written = self.end

    # Asking.

    async def check(self) -> None:
        """Ask everything that a client can ask."""
        await self.settle()
        if self.is_failed:
            return
        try:
            await check_everything(self)
        except KafkaError as error:
            self.watch()
            if not (self.is_failed and error.code == ErrorCode.KAFKA_STORAGE_ERROR):
                raise

    async def read_meanwhile(self, offset: int, max_bytes: int) -> None:
        """Read while others change the log: what it answers was in it."""
        log, ever, generation = self.log, self.ever, self.log.generation
        incarnation, was_compacted = self.incarnation, self.was_compacted
        end = log.log_end_offset
        expected = next((batch for batch in self.batches if batch.end > offset), None)
        try:
            read = await log.read(offset, max_bytes, log.log_end_offset)
        except KafkaError as error:
            is_gone = generation != log.generation or offset < log.log_start_offset
            if error.code == ErrorCode.OFFSET_OUT_OF_RANGE and (is_gone or offset > end):
                return
            raise
        got = model.parse(b"".join(bytes(buffer) for buffer in read.buffers))
        # Whatever was compacted before the topic was deleted, is not known any more.
        if was_compacted or self.was_compacted or incarnation != self.incarnation:
            known = {record.offset: record for one in ever.values() for record in one.records}
            strange = [r for b in got for r in b.records if known.get(r.offset) != r]
        else:
            strange = [batch.header.base_offset for batch in got if batch.raw not in ever]
            is_same = generation == log.generation and log is self.log
            if is_same and expected is not None and (not got or got[0].raw != expected.raw):
                raise Wrong(f"a read at {offset} meanwhile begins with {got[:1]}")
        if strange:
            raise Wrong(f"a read at {offset} meanwhile has {strange}, never appended")
        if [batch.end for batch in got] != sorted({batch.end for batch in got}):
            raise Wrong(f"a read at {offset} meanwhile goes back")

    async def read_committed_meanwhile(self, offset: int) -> None:
        """Read what is decided while others change the log: no aborted record is shown as one."""
        log, generation, limit = self.log, self.log.generation, self.log.last_stable_offset
        try:
            read, told = await log.read_with_aborted(offset, 100_000, limit)
        except KafkaError as error:
            if error.code == ErrorCode.OFFSET_OUT_OF_RANGE:
                return  # the log begins behind it by now, or was cut
            raise
        if generation != log.generation or log is not self.log:
            return
        got = model.parse(b"".join(bytes(buffer) for buffer in read.buffers))
        aborted = model.aborted_offsets(self.batches)
        decided = {r.offset for b in got if b.is_data for r in b.records} - aborted
        shown = set(model.committed_by(got, told))
        if shown != decided:
            raise Wrong(
                f"a committed read at {offset} meanwhile, told of aborted {told}, shows aborted"
                f" {sorted(shown - decided)} and misses {sorted(decided - shown)}"
            )

    async def look_up_meanwhile(self, timestamp: int) -> None:
        """Look a time up while others change the log: the answer was in it."""
        ever = self.ever
        got = await self.log.offset_for_timestamp(timestamp, self.end)
        if got is None:
            return
        stamps = {r.timestamp for one in ever.values() for r in one.records if r.offset == got[1]}
        if got.timestamp < timestamp or got.timestamp not in stamps:
            raise Wrong(f"the record at {timestamp} meanwhile is {got}")

    def known_producers(self) -> dict[int, model.Producer]:
        """What the log should know of its producers."""
        return model.producers(self.batches)

    def opened(self) -> list[int]:
        """The producers whose transactions have not ended, in the order in which they began."""
        return list(model.open_transactions(self.batches))


@cache
def _broker_config() -> BrokerConfig:
    return BrokerConfig.parse({"node.id": "1", "log.dirs": ",".join(DIRECTORIES)})


@cache
def _topic_settings(policy: str) -> LogConfig:
    return LogConfig.build({}, {"cleanup.policy": policy, "min.cleanable.dirty.ratio": "0"})


def _config(policy: str, **settings: Any) -> LogConfig:
    """Settings with values that are smaller than Kafka allows."""
    built = _topic_settings(policy)
    values = {key: getattr(built, key) for key in LogConfig.__slots__}
    return LogConfig(**{**values, "delete_retention_ms": 10**12, **settings})

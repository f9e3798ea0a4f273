"""One broker's logs on a stepping disk, driven by actions and compared with the model.

What a start may find: after a kill, all that was written; after a power cut, at least what was
promised (the recovery point as it was told at any time); never anything that was not appended,
and never a hole. From there on the log must be just what was found, and answer every question as
the model does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.config.topic import LogConfig
from barnabas_broker.log.errors import LogDirectoryError
from barnabas_broker.log.import_directory import import_partition, inspect_partition
from barnabas_broker.log.log_manager import LogManager
from barnabas_broker.log.partition_log import PartitionLog
from barnabas_broker.log.tail_cache import TailCache
from barnabas_broker.replication.future_log import FutureLogs
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import ZERO_UUID, TopicPartition
from barnabas_protocol.records.batch import stamp
from barnabas_protocol.records.control import ControlType, encode_marker
from barnabas_protocol.records.record import Record, encode_batch
from tests.broker.log.model import model
from tests.broker.log.model.model import Batch
from tests.broker.log.model.stepping_disk import SteppingDisk
from tests.support.simulated_random import SimulatedRandom
from tests.support.virtual_loop import VirtualClock

DIRECTORIES = ("/a", "/b")
FAR = 2**31 + 5
_OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class Wrong(Exception):  # noqa: N818: it is the finding of a history, not an error of its own
    """The log is not what it should be."""


class Replica:
    """What `FutureLogs` needs of a partition."""

    def __init__(self, topic_partition: TopicPartition, topic_id: bytes, log: PartitionLog) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log = log


class World:
    """The disk, the process on it, and the model."""

    def __init__(self, seed: int) -> None:
        self.random = SimulatedRandom(seed)
        loop = asyncio.get_running_loop()
        self.clock = VirtualClock(loop)
        self.disk = SteppingDisk(SimulatedRandom(seed + 1), self.clock)  # type: ignore[arg-type]
        for path in (*DIRECTORIES, "/import"):
            self.disk.make_directories(path)
        draw = self.random.integer
        name = "t" * (249 if draw(12) == 0 else 5)
        self.name = TopicPartition(name, 0)
        self.incarnation = 0
        self.config = self._draw_config()
        self.cache_bytes = (0, 1 << 16)[draw(2)]
        self.tasks: list[asyncio.Task[Any]] = []
        self.is_failed = False
        self.next_value = 0
        self._forget()

    # The model.

    def _forget(self) -> None:
        """A topic that was never written."""
        self.batches: list[Batch] = []
        self.start = self.start_floor = 0
        self.start_highest = 0  # a crash may lower the start, but not that of its epoch
        self.empty_until = 0  # where an empty segment behind a wide gap begins
        self.promised = self.written = 0
        self.was_compacted = self.lost_epochs = False
        self.cut_to: int | None = None  # while a truncation is not settled
        self.may_delete_below = 0
        self.maybe: list[Batch] = []  # whose append has failed
        self.sequences: dict[int, int] = {}
        self.open: set[int] = set()
        self.may_be_gone: set[int] = set()
        self.epoch = 0
        self.start_producers = False  # whether the oldest may be forgotten by now

    @property
    def topic_id(self) -> bytes:
        return bytes([self.incarnation]) * 16

    @property
    def end(self) -> int:
        """Where the log should end."""
        return max(self.batches[-1].end if self.batches else 0, self.start, self.empty_until)

    @property
    def log(self) -> PartitionLog:
        return self.replica.log

    def _draw_config(self) -> LogConfig:
        draw = self.random.integer
        policy = ("delete", "delete", "compact", "compact,delete")[draw(4)]
        built = LogConfig.build({}, {"cleanup.policy": policy, "min.cleanable.dirty.ratio": "0"})
        values = {key: getattr(built, key) for key in LogConfig.__slots__}
        values.update(
            segment_bytes=(400, 900, 2500, 1 << 20)[draw(4)],
            index_interval_bytes=(64, 200, 600)[draw(3)],
            preallocate=draw(3) == 0,
            retention_ms=(-1, 3_600_000)[draw(2)],
            retention_bytes=(-1, -1, 2000)[draw(3)],
            file_delete_delay_ms=(0, 1000)[draw(2)],
            flush_messages=(2**63 - 1, 2**63 - 1, 1, 4)[draw(4)],
            delete_retention_ms=10**12,
        )
        return LogConfig(**values)

    # Life.

    async def start_process(self) -> None:
        self.disk.start_process()
        self.is_failed = self.is_compacting = False
        config = BrokerConfig.parse({"node.id": "1", "log.dirs": ",".join(DIRECTORIES)})
        self.manager = LogManager(
            config, self.disk, self.clock, self.random, TailCache(self.cache_bytes)
        )
        await self.manager.load(self._topic_config, self._topic_id)
        self.manager.lost.clear()  # what is missing of a log is told to the controller
        offline = [d.path for d in self.manager.directories if d.is_offline]
        if offline:
            raise Wrong(f"offline after the start: {offline}")
        log = self.manager.logs.get(self.name)
        if log is None:
            log = self.manager.create(self.name, self.topic_id, self.config)
        self.replica = Replica(self.name, self.topic_id, log)
        self.moves = FutureLogs(self.manager, lambda _: self.replica, self._spawn)  # type: ignore[arg-type,return-value]
        log.advance_high_watermark(log.log_end_offset)

    def _topic_config(self, topic: str, topic_id: bytes) -> LogConfig | None:
        is_ours = (topic, topic_id) == (self.name.topic, self.topic_id)
        return self.config if is_ours else None

    def _topic_id(self, topic: str) -> bytes:
        return self.topic_id if topic == self.name.topic else ZERO_UUID

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.get_running_loop().create_task(self._guarded(work))
        # A kill may come before its first step.
        task.add_done_callback(lambda _: work.close())
        self.tasks.append(task)

    async def _guarded(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Failures of the disk take the log offline, and that is all they may do."""
        try:
            return await work
        except (OSError, LogDirectoryError):
            if self.manager.logs.get(self.name) is self.log:
                self.manager.take_offline(self.log.directory, OSError(5, "seen by the caller"))
        except KafkaError as error:
            if error.code not in (
                ErrorCode.KAFKA_STORAGE_ERROR,
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                ErrorCode.POLICY_VIOLATION,
            ):
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
        if self.manager.logs.get(self.name) is None or self.log.is_offline:
            self.is_failed = True
            return
        log = self.log
        point = min(log.recovery_point, log.log_end_offset)
        if self.cut_to is None:
            self.promised = max(self.promised, point)
            self.written = max(self.written, min(log.log_end_offset, self.end))
        if log.log_start_offset > self.start:
            self._started_later(log.log_start_offset)

    def _started_later(self, start: int) -> None:
        now, config = self.clock.wall_ms(), self.config
        gone = [
            record
            for batch in self.batches
            for record in batch.records
            if self.start <= record.offset < start and record.offset >= self.may_delete_below
        ]
        if gone and config.retention_bytes < 0:
            newest = max(record.timestamp for record in gone)
            is_expired = 0 <= config.retention_ms < now - newest
            if not is_expired or "delete" not in config.cleanup_policy:
                raise Wrong(f"retention deleted up to {start}, with a record of {now - newest} ms")
        self.start, self.start_producers = start, True
        self.start_highest = max(self.start_highest, start)

    # Crashes.

    async def crash(self, kind: int) -> None:
        """0: kill -9; 1: the power, without anything unsynced; 2: with some of it."""
        self.watch()
        self.tasks.clear()
        before = (self.start_floor, self.start)
        await self.disk.kill()
        if kind:
            self.disk.crash(keep_some=kind == 2)
        self.disk.start_process()
        await self.start_process()
        await self._take_over(before, floor=self.promised if kind else self.written)

    async def stop(self, then: Callable[[], None] | None = None) -> None:
        """A clean stop, perhaps something done to the disk, and a start."""
        await self.settle()
        self.moves.close()
        await self.settle()
        was_failed, start = self.is_failed, self.start
        await self.manager.close(1)
        was_failed = was_failed or any(d.is_offline for d in self.manager.directories)
        await self.disk.kill()
        self.disk.start_process()
        if then is not None and not was_failed:
            await self.disk.run(then)
        await self.start_process()
        low = self.start_floor if was_failed or then == self.take_out_and_import else start
        await self._take_over((low, start), floor=self.written)
        if not was_failed:
            self.promised = max(self.promised, self.written)
            self.start_floor = self.start

    async def _take_over(self, starts: tuple[int, int], floor: int) -> None:
        """Compare what a start has found with what it may find; the model goes on from there."""
        log = self.log
        if self.cut_to is not None:
            floor = min(floor, self.cut_to)
        self.cut_to = None
        if floor <= starts[1]:
            floor = 0  # all that was safe has been deleted since
        end, start = log.log_end_offset, log.log_start_offset
        possible = [*self.batches, *self.maybe]
        lowest = min(starts[0], self.end)
        if not lowest <= start <= max(starts[1], lowest):
            raise Wrong(f"the log starts at {start}, which is not within {starts}")
        if end < floor and not self._is_only_hole(end, floor):
            raise Wrong(f"the log ends at {end}: what is below {floor} was safe")
        top = possible[-1].end if possible else 0
        if end > max(top, self.start) and not self._is_far_base(end):
            raise Wrong(f"the log ends at {end}, more than was appended ({top})")
        is_far = self._is_far_base(end)
        self.empty_until = end if is_far else 0
        self._cut_model([batch for batch in possible if batch.end <= end])
        last = self.batches[-1].end if self.batches else start
        if not self.was_compacted and start < end != last and not is_far:
            raise Wrong(f"the log ends at {end}, within a batch")
        self.maybe, self.start = [], start
        if self.start_floor > start:
            self.start_floor = start
        self.written = self.end
        self.promised = min(self.promised, self.end)
        known = model.producers(self.batches)
        self.sequences = {key: found.last_sequence for key, found in known.items()}
        self.open = set(model.open_transactions(self.batches))
        self.epoch = max((batch.header.leader_epoch for batch in self.batches), default=self.epoch)
        await self.check()

    def _is_only_hole(self, start: int, end: int) -> bool:
        """Whether compaction may have left nothing there: then a log may end before it."""
        if not self.was_compacted:
            return False
        kept = set(self._newest().values()) - self.may_be_gone
        return not any(start <= offset < end for offset in kept)

    def _is_far_base(self, end: int) -> bool:
        """Whether the log ends where an empty segment behind a wide gap begins."""
        known = [*self.batches, *self.maybe]
        has_gap = any(batch.end > 2**31 for batch in known) or end > 2**31 - 2**20
        return has_gap and end == self.log.segments.active.base_offset

    # Appending.

    def make_records(self, count: int, size: int, base: int = 0) -> list[Record]:
        """Records with keys that come again, and timestamps that mostly rise."""
        records = []
        for number in range(count):
            self.next_value += 1
            late = self.random.integer(3) * self.random.integer(2) * 60_000
            value = b"%d" % self.next_value + bytes(size)
            key = b"k%d" % self.random.integer(4)
            records.append(Record(base + number, self.clock.wall_ms() - late, key, value))
        return records

    def append(self, raw: bytes, *, internal: bool = False) -> None:
        """Append as a leader; the model gets what must be in the log."""
        log = self.log
        data = bytearray(raw)
        first = log.staged_end_offset
        stamp(data, 0, first, self.epoch)
        batch = Batch(bytes(data))
        try:
            info = log.append_as_leader(
                bytearray(raw), self.epoch, internal=internal, now_ms=self.clock.wall_ms()
            )
            self.write(batch)
        except (LogDirectoryError, OSError):
            self.maybe.append(batch)
            self.manager.take_offline(log.directory, OSError(5, "seen by the caller"))
            return
        except KafkaError as error:
            # A marker that outlived its producer's batches leaves a sequence that nobody knows.
            is_forgotten = self.start_producers and error.code == _OUT_OF_ORDER
            if error.code != ErrorCode.RECORD_LIST_TOO_LARGE and not is_forgotten:
                raise
            return
        if not info.is_duplicate and info.first_offset != batch.header.base_offset:
            raise Wrong(f"appended at {info.first_offset}, not at {first}")

    def write(self, batch: Batch) -> None:
        self.log.write_staged()
        if not self.log.is_offline:
            self.batches.append(batch)
            self.written = batch.end
        self.log.advance_high_watermark(self.log.log_end_offset)

    def produce(self, kind: int, size: int) -> None:
        """A plain batch, an idempotent or transactional one, or a marker."""
        records = self.make_records(1 + size % 3, size)
        if kind < 3:
            self.append(encode_batch(records))
            return
        producer = 1 + size % 3 + (10 if kind >= 5 else 0)
        if kind >= 7 and producer in self.open:
            control = ControlType.ABORT if kind == 7 else ControlType.COMMIT
            marker = encode_marker(
                control,
                producer_id=producer,
                producer_epoch=0,
                coordinator_epoch=0,
                timestamp=self.clock.wall_ms(),
            )
            self.append(bytes(marker), internal=True)
            self.open.discard(producer)
            return
        sequence = self.sequences.get(producer, -1) + 1
        self.append(
            encode_batch(
                records,
                producer_id=producer,
                producer_epoch=0,
                base_sequence=sequence,
                is_transactional=producer > 10,
            )
        )
        if self.batches and self.batches[-1].header.producer_id == producer:
            self.sequences[producer] = self.batches[-1].header.last_sequence
            if producer > 10:
                self.open.add(producer)

    def follow(self, gap: int, size: int) -> None:
        """Append as a follower of a log with gaps."""
        log = self.log
        base = log.staged_end_offset + (0, 1, 40, FAR)[gap]
        if gap and not log.size_bytes:
            base = log.log_end_offset + gap
        records = self.make_records(1 + size % 2, size, base)
        batch = Batch(encode_batch(records, base_offset=base, leader_epoch=self.epoch))
        if not log.size_bytes and base != log.log_end_offset:
            return
        try:
            log.append_as_follower(batch.raw)
            self.write(batch)
        except (LogDirectoryError, OSError):
            self.maybe.append(batch)
            self.manager.take_offline(log.directory, OSError(5, "seen by the caller"))

    # Changing.

    async def truncate(self, offset: int) -> None:
        """As a follower does that has other records than its leader."""
        await self.settle()
        log = self.log
        if self.is_failed or not 0 <= offset < self.end:
            return
        kept = [batch for batch in self.batches if batch.end <= offset]
        # A leader that is asked where to cut names the beginning of a batch.
        offset = kept[-1].end if kept else min(offset, self.start)
        self.cut_to = offset
        while log.truncate_to(log.truncation_step(offset)):
            await self.manager.note_truncations([log])
            if log.is_offline:
                return
        self._cut_model(kept)
        self.empty_until = 0
        self.start = min(self.start, offset)
        self.start_floor = min(self.start_floor, self.start)
        self.written, self.promised = self.end, min(self.promised, offset)
        self.cut_to = None
        known = model.producers(self.batches)
        self.sequences = {key: found.last_sequence for key, found in known.items()}
        self.open = set(model.open_transactions(self.batches))
        log.advance_high_watermark(log.log_end_offset)
        self.epoch += 1

    async def delete_topic(self) -> None:
        """Delete the topic and make it anew, while threads are at work for the old one."""
        self.moves.dropped(self.name)
        await self.manager.delete(self.name)
        self.incarnation += 1
        self._forget()
        await self.manager.note_deletions()
        log = self.manager.create(self.name, self.topic_id, self.config)
        self.replica = Replica(self.name, self.topic_id, log)
        self.moves.wishes.clear()

    async def compact(self) -> None:
        self.was_compacted = True
        if not self.is_compacting:  # a broker's cleaner never makes two rounds at once
            self.is_compacting = True
            try:
                await self.manager.cleaner.clean_once()
            finally:
                self.is_compacting = False

    async def checkpoint(self) -> None:
        """All three files, as they are written each minute."""
        for directory in self.manager.online_directories():
            start, incarnation = self.start, self.incarnation
            await self.manager.checkpointing.write_all(directory)
            is_there = self.log.directory.startswith(directory.path)
            if not directory.is_offline and is_there and incarnation == self.incarnation:
                self.start_floor = max(self.start_floor, min(start, self.start))

    def lose_epochs(self) -> None:
        path = self.log.leader_epochs.path
        if self.disk.exists(path):
            self.disk.remove(path)
            self.lost_epochs = True

    def take_out_and_import(self) -> None:
        """Leave of the partition what Kafka would, and import it."""
        folder = self.log.directory
        source = f"/import/{self.name.topic}-0"
        for name in self.disk.list_directory(folder):
            if not name.endswith((".log", ".txnindex")):
                self.disk.remove(f"{folder}/{name}")
        self.disk.rename(folder, source)
        found = inspect_partition(self.disk, source)
        import_partition(
            self.disk,
            self.clock,
            self.random,
            found,
            DIRECTORIES[self.random.integer(2)],
            self.config,
            topic_id=self.topic_id,
        )
        self.disk.remove_tree(source)
        self.start_floor = 0
        self.lost_epochs = self.start_producers = True

    # Asking.

    async def read_all(self, start: int, max_bytes: int) -> list[Batch]:
        log, found, offset = self.log, list[Batch](), start
        while offset < log.log_end_offset:
            read = await log.read(offset, max_bytes, log.log_end_offset)
            batches = model.parse(b"".join(bytes(buffer) for buffer in read.buffers))
            if not batches:
                break
            if batches[0].end <= offset:
                raise Wrong(f"read at {offset}: {batches[0].header.base_offset}")
            found += batches
            offset = batches[-1].end
        return found

    async def check(self) -> None:
        """Ask everything that a client can ask."""
        await self.settle()
        try:
            await self._check_all()
        except KafkaError as error:
            self.watch()
            if not (self.is_failed and error.code == ErrorCode.KAFKA_STORAGE_ERROR):
                raise

    async def _check_all(self) -> None:
        if self.is_failed:
            return
        log = self.log
        is_far = self._is_far_base(log.log_end_offset)
        if (log.log_start_offset, log.log_end_offset) != (self.start, self.end) and not is_far:
            raise Wrong(
                f"the log is [{log.log_start_offset}, {log.log_end_offset}), "
                f"it should be [{self.start}, {self.end})"
            )
        found = await self.read_all(self.start, 1 + self.random.integer(3000))
        self._check_batches(found)
        await self._check_offsets(found)
        await self._check_times(found)
        self._check_transactions(found)
        self._check_producers(found)
        self._check_epochs()

    def _check_batches(self, found: list[Batch]) -> None:
        expected = [batch for batch in self.batches if batch.end > self.start]
        if not self.was_compacted:
            if [batch.raw for batch in found] != [batch.raw for batch in expected]:
                raise Wrong(f"read {_spans(found)}, which should be {_spans(expected)}")
            return
        known = {record.offset: record for batch in expected for record in batch.records}
        seen = {record.offset: record for batch in found for record in batch.records}
        for offset, record in seen.items():
            if known.get(offset) != record:
                raise Wrong(f"the record at {offset} was never appended")
        newest = self._newest()
        missing = [
            offset
            for offset in newest.values()
            if offset not in seen and offset >= self.start and offset not in self.may_be_gone
        ]
        if missing:
            raise Wrong(f"the newest records of their keys are gone: {missing}")

    def _newest(self) -> dict[bytes | None, int]:
        """Where the newest committed record of each key is."""
        aborted = model.aborted_offsets(self.batches)
        return {
            record.key: record.offset
            for batch in self.batches
            if not batch.header.is_control
            for record in batch.records
            if record.offset not in aborted
        }

    def _cut_model(self, batches: list[Batch]) -> None:
        """The log has been cut: what compaction took for the sake of what was cut may be gone."""
        if self.was_compacted and len(batches) != len(self.batches):
            newest = set(self._newest().values())
            offsets = {record.offset for batch in self.batches for record in batch.records}
            self.may_be_gone |= offsets - newest
        self.batches = batches

    async def _check_offsets(self, found: list[Batch]) -> None:
        log = self.log
        if log.log_end_offset - self.start < 200:
            offsets = list(range(self.start, log.log_end_offset))
        else:
            offsets = [batch.header.base_offset for batch in found]
        for offset in offsets:
            read = await log.read(offset, 1, log.log_end_offset)
            got = model.parse(b"".join(bytes(buffer) for buffer in read.buffers))
            first = next((batch for batch in found if batch.end > offset), None)
            if (got[0].raw if got else None) != (first.raw if first else None):
                raise Wrong(
                    f"read at {offset}: {_spans(got)}, not {_spans([first] if first else [])}"
                )

    async def _check_times(self, found: list[Batch]) -> None:
        log = self.log
        times = sorted({record.timestamp for batch in found for record in batch.records})
        draw = self.random.integer
        asked = {times[draw(len(times))] + draw(2) for _ in range(3)} if times else {0}
        for timestamp in asked:
            got = await log.offset_for_timestamp(timestamp, log.log_end_offset)
            expected = model.first_at(found, timestamp, self.start)
            if (got and (got.timestamp, got.offset)) != expected:
                raise Wrong(f"the first record at {timestamp}: {got}, not {expected}")
        newest = await log.max_timestamp_offset(log.log_end_offset)
        is_whole = bool(times) and log.segments.first.base_offset == self.start
        if is_whole and (newest is None or newest.timestamp != times[-1]):
            raise Wrong(f"the newest record: {newest}, not one of {times[-1]}")

    def _check_transactions(self, found: list[Batch]) -> None:
        log = self.log
        aborted = model.aborted_offsets(self.batches)
        expected = [
            record.offset
            for batch in found
            if not batch.header.is_control
            for record in batch.records
            if record.offset not in aborted
        ]
        told = log.aborted_transactions(self.start, log.log_end_offset)
        shown = model.committed_by(found, told)
        if shown != expected:
            raise Wrong(
                f"told of aborted {told}: read_committed misses {set(expected) - set(shown)} "
                f"and shows aborted {set(shown) - set(expected)}"
            )
        opened = [o for o in model.open_transactions(self.batches).values() if o >= self.start]
        stable = min([*opened, log.high_watermark])
        if log.last_stable_offset != stable and not self.start_producers:
            raise Wrong(f"the last stable offset is {log.last_stable_offset}, not {stable}")

    def _check_producers(self, found: list[Batch]) -> None:
        known = self.log.producer_state.producers
        expected = model.producers(self.batches)
        # What is below the log start may be forgotten; what is not must be known.
        kept = {b.header.producer_id for b in found if not b.header.is_control and b.records}
        for producer_id in kept & expected.keys() if self.start_producers else expected.keys():
            entry, want = known.get(producer_id), expected[producer_id]
            got = entry and model.Producer(
                entry.producer_epoch, entry.last_sequence, entry.transaction_first_offset
            )
            if self.start_producers and got and got.last_sequence == want.last_sequence:
                continue
            if got != want:
                raise Wrong(f"producer {producer_id}: {got}, not {want}")
        for producer_id in known.keys() - expected.keys():
            raise Wrong(f"producer {producer_id} is not of this log")

    def _check_epochs(self) -> None:
        if self.was_compacted or (self.lost_epochs and self.start_producers):
            return  # they may be taken from what batches there are
        # An epoch without records is forgotten by the next start, and nobody asks where the first
        # one began, but for what there is of it.
        first = next((b.header.base_offset for b in self.batches if b.end > self.start), self.end)
        entries = [e for e in model.epoch_entries(self.batches, self.start) if e[1] < self.end]
        got = [(e[0], e[1]) for e in self.log.leader_epochs.entries if e[1] < self.end]
        if got and entries and self.start <= got[0][1] <= max(first, self.start_highest):
            got[0] = (got[0][0], entries[0][1])
        if got != entries:
            raise Wrong(f"leader epochs {got}, not {entries}")


def _spans(batches: list[Batch]) -> list[tuple[int, int]]:
    return [(batch.header.base_offset, batch.end) for batch in batches]

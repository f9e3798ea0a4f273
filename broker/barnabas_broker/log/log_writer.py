"""The writing half of a partition log: appending, and rolling to a new segment.

An append is checked, stamped and staged at once; `write_staged` puts all batches of a loop turn
into the file with one call, and only then the log end offset moves. Not here: the checks
(`validator.py`), producers (`producer_state.py`), fsync (`log_flush.py`).

Source: behaviour section 8, SEG-1, SEG-2. Invariants: only the active segment changes; batches are
written in the order in which they got their offsets; after an error nothing is accepted any more.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Sized
from typing import cast

from barnabas_broker.config.topic import LogConfig
from barnabas_broker.env.disk import Buffer
from barnabas_broker.log.append_info import AppendInfo
from barnabas_broker.log.ballast import is_out_of_space
from barnabas_broker.log.log_deletion import SegmentRemoval
from barnabas_broker.log.log_flush import LogFlush
from barnabas_broker.log.log_state import LogState
from barnabas_broker.log.log_truncation import truncate_fully_and_start_at
from barnabas_broker.log.producer_replay import marker_of
from barnabas_broker.log.segment import RELATIVE_OFFSET_MAX, Segment
from barnabas_broker.log.time_index import NO_TIMESTAMP
from barnabas_broker.log.transaction_index import AbortedTransaction
from barnabas_broker.log.validator import BatchValidator, CheckedBatch, writable
from barnabas_protocol.errors import ErrorCode, KafkaError, ParseError
from barnabas_protocol.records.batch import (
    CONTROL_BIT,
    LOG_OVERHEAD_BYTES,
    BatchHeader,
    check_crc,
    iterate_headers,
    stamp,
)
from barnabas_protocol.records.control import ControlType

_NEVER = 2**63 - 1
_EPOCH_MAX = 2**31 - 1
# A batch that is so much smaller than the request it came in is copied: the tail cache counts its
# bytes, but would keep the request's, of which all else may have been refused.
PINNED_FACTOR_MAX = 8


class LogWriter(LogState):
    """A log's state and what appends to it. `start_writing` comes before the first append."""

    flushing: LogFlush
    removal: SegmentRemoval

    def start_writing(self, config: LogConfig) -> None:
        """Set up the active segment for appends."""
        # (buffer, size, base offset, last offset, max timestamp) of each batch not yet written.
        self._staged: list[tuple[Buffer, int, int, int, int]] = []
        self._staged_aborted: list[AbortedTransaction] = []
        self._is_preallocated = False
        self._is_following = False  # what is staged is a leader's: few will read it from here
        self._stamped_epoch = -1
        self.update_config(config)
        self.reset_active()

    def append_as_leader(
        self,
        records: Buffer,
        leader_epoch: int,
        *,
        internal: bool = False,
        now_ms: int,
        checked: CheckedBatch | None = None,
    ) -> AppendInfo:
        """Check a client's batch, give it offsets and the leader epoch, and stage it.

        The buffer is changed in place and kept: it must not be used again by the caller.
        `internal`: one or several batches made by the broker itself, which are not checked.
        `checked`: what a HeavyBatchError has made of the batch; checked again where the topic's
        settings have changed meanwhile.
        Raises: KafkaError; LogDirectoryError if a segment had to be rolled and that failed;
        HeavyBatchError where checking it here would take too long.
        """
        if self.is_offline or self.is_closed:
            raise self.storage_error()
        if internal:
            return self._append_internal(records, leader_epoch, now_ms)
        if checked is not None and checked.validator is self._validator:
            records, header = checked.records, checked.header
        else:
            records, header = self._validator.check(records, now_ms)
        if header[9] >= 0:
            repeated = self.producer_state.check(header, now_ms, self.high_watermark)
            if repeated is not None:
                return AppendInfo(
                    repeated.first_offset,
                    repeated.last_offset,
                    repeated.timestamp,  # Kafka's answer, whatever the topic's timestamps are
                    self.log_start_offset,
                    True,
                    0,
                    0,
                    repeated.timestamp,
                )
        size, max_timestamp = len(records), header[8]
        if isinstance(records, memoryview):
            if records.readonly or size * PINNED_FACTOR_MAX < len(cast("Sized", records.obj)):
                records = memoryview(bytearray(records))
        elif isinstance(records, bytes):
            records = bytearray(records)
        first_offset = self.staged_end_offset
        last_offset = first_offset + header[6]
        self._make_room(size, last_offset, max_timestamp, now_ms)
        stamp(records, 0, first_offset, leader_epoch)
        self._is_following = False
        if leader_epoch != self._stamped_epoch:
            self.leader_epochs.assign(leader_epoch, first_offset)
            self._stamped_epoch = leader_epoch
        self.producer_state.append(header, first_offset, leader_epoch)
        self._stage(records, size, first_offset, last_offset, max_timestamp)
        return AppendInfo(
            first_offset,
            last_offset,
            max_timestamp if self._is_log_append_time else -1,
            self.log_start_offset,
            False,
            size,
            header[12],
            max_timestamp,
        )

    def append_as_follower(self, records: Buffer, leader_epoch_max: int = _EPOCH_MAX) -> AppendInfo:
        """Stage batches with the offsets and epochs that the leader gave them (LOG-9).

        A partial batch at the end is dropped, and so is what follows the first batch of a higher
        leader epoch than the one that was fetched under. Raises: KafkaError CORRUPT_MESSAGE for a
        wrong CRC, OFFSET_OUT_OF_RANGE for offsets that do not rise; LogDirectoryError.
        """
        self.check_online()
        view = memoryview(records)
        batches = _batches_of(view)
        for index, (_, header) in enumerate(batches):
            if header[2] > leader_epoch_max:
                del batches[index:]
                break
        info = AppendInfo(-1, -1, -1, self.log_start_offset, False, 0, 0, -1)
        if not batches:
            return info
        self._check_follower(view, batches)
        if not self._is_following:
            # Only a leader's readers are at the end, and a tail has no hole: it begins anew then.
            self.write_staged()
            self.tail.clear()
            self._is_following = True
        self._append_each(view, batches, None, self.clock.wall_ms(), info)
        return info

    def _append_internal(self, records: Buffer, leader_epoch: int, now_ms: int) -> AppendInfo:
        self._is_following = False
        view = memoryview(writable(records))
        info = AppendInfo(-1, -1, -1, self.log_start_offset, False, 0, 0, -1)
        self._append_each(view, _batches_of(view), leader_epoch, now_ms, info)
        return info

    def _append_each(
        self,
        view: memoryview,
        batches: list[tuple[int, BatchHeader]],
        leader_epoch: int | None,
        now_ms: int,
        info: AppendInfo,
    ) -> None:
        """Stage batches, with offsets of our own if a leader epoch is given; `info` sums them."""
        for position, read in batches:
            header, size = read, read[1] + LOG_OVERHEAD_BYTES
            batch = view[position : position + size]
            if leader_epoch is not None:
                first_offset = self.staged_end_offset
                stamp(batch, 0, first_offset, leader_epoch)
                header = header._replace(base_offset=first_offset, leader_epoch=leader_epoch)
            last_offset, max_timestamp = header[0] + header[6], header[8]
            self._make_room(size, last_offset, max_timestamp, now_ms)
            self._apply(header, batch, is_leader=leader_epoch is not None)
            # No look-up finds a record in a batch that compaction has emptied on the leader.
            found_timestamp = max_timestamp if header[12] else NO_TIMESTAMP
            self._stage(batch, size, header[0], last_offset, found_timestamp)
            if info.first_offset < 0:
                info.first_offset = header[0]
            info.last_offset = last_offset
            info.size_bytes += size
            info.record_count += header[12]
            if max_timestamp > info.max_timestamp:
                info.max_timestamp = max_timestamp

    def _check_follower(self, view: memoryview, batches: list[tuple[int, BatchHeader]]) -> None:
        """Refuse all of the batches if one is damaged or out of order."""
        expected = self.staged_end_offset
        if not self.size_bytes and not self._staged:
            # An empty log may begin anywhere (LOG-9).
            expected = batches[0][1].base_offset
            if expected < self.log_end_offset:
                self.truncate_fully_and_start_at(expected)
        for position, header in batches:
            base_offset, last_offset_delta = header[0], header[6]
            if base_offset < expected:
                raise KafkaError(
                    ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {base_offset} is below {expected}"
                )
            if last_offset_delta < 0 or not check_crc(view, position, header):
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"batch {base_offset}")
            expected = base_offset + last_offset_delta + 1

    def _apply(self, header: BatchHeader, batch: memoryview, *, is_leader: bool) -> None:
        """Bring leader epochs and producer state up to a batch that is about to be staged.

        Only a leader may refuse it: what it has taken, its followers must take too.
        """
        if header[2] != self._stamped_epoch:
            self.leader_epochs.assign(header[2], header[0])
            self._stamped_epoch = header[2]
        if not header[5] & CONTROL_BIT:
            self.producer_state.append(header)
            return
        marker = marker_of(batch, header)
        if marker is None:
            return
        if is_leader:
            self.producer_state.check_marker(header, marker.coordinator_epoch)
        completed = self.producer_state.append_marker(
            header,
            is_abort=marker.control_type == ControlType.ABORT,
            coordinator_epoch=marker.coordinator_epoch,
        )
        if completed is not None and completed.is_aborted:
            self._staged_aborted.append(self.producer_state.aborted(completed))

    def _stage(
        self, buffer: Buffer, size: int, base_offset: int, last_offset: int, max_timestamp: int
    ) -> None:
        self._staged.append((buffer, size, base_offset, last_offset, max_timestamp))
        self.staged_end_offset = last_offset + 1
        self._active_bytes += size

    def write_staged(self) -> None:
        """Write what is staged with one call, then move the log end offset and the indexes.

        Raises: LogDirectoryError: the log accepts nothing more; unless there was merely no room,
        its directory has to go offline.
        """
        staged = self._staged
        if not staged:
            return
        self._staged = []
        if self.is_offline:
            # It failed after these were staged: they are never acknowledged.
            return
        segment = self.segments.active
        try:
            self._write(staged, segment)
        except OSError as error:
            if is_out_of_space(error) and not self._is_preallocated:
                # Whole batches of it may be in the file, and were never acknowledged.
                with contextlib.suppress(OSError):
                    segment.file.truncate(segment.size_bytes)
            raise self.fail(segment.log_path, error) from error
        except Exception as error:
            # The file may hold what is not known of, or the other way round: whatever is appended
            # after that would be lost at the next start.
            fault = OSError(errno.EIO, f"the write was left half done: {error!r}")
            raise self.fail(segment.log_path, fault) from error
        if self.log_end_offset - self.recovery_point >= self._flush_messages:
            self.flushing.start_in_background()

    def _write(self, staged: list[tuple[Buffer, int, int, int, int]], segment: Segment) -> None:
        buffers = [entry[0] for entry in staged]
        if self._is_preallocated:
            segment.file.write_at(b"".join(buffers), segment.size_bytes)
        else:
            segment.file.append(buffers)
        if self._staged_aborted:
            for aborted in self._staged_aborted:
                segment.open_transaction_index().append(aborted)
            self._staged_aborted = []
        interval_bytes, tail = self._interval_bytes, self.tail
        if segment.first_timestamp is None:
            segment.first_timestamp = staged[0][4]
            self._set_roll_limits()
        before = len(segment.offset_index.entries) if segment.offset_index is not None else 0
        if self._is_following:
            for _, size, _, last_offset, max_timestamp in staged:
                segment.note_batch(last_offset, max_timestamp, size, interval_bytes)
                tail.skip(size)
        else:
            for buffer, size, base_offset, last_offset, max_timestamp in staged:
                segment.note_batch(last_offset, max_timestamp, size, interval_bytes)
                tail.append(buffer, size, base_offset, last_offset)
        self.log_end_offset = self.staged_end_offset
        if segment.offset_index is not None and len(segment.offset_index.entries) != before:
            self._check_index_room(segment)

    # ------------------------------------------------------------------ roll

    def _make_room(self, size: int, last_offset: int, max_timestamp: int, now_ms: int) -> None:
        """Roll first if the batch must not go into the active segment (SEG-1)."""
        if (
            size + self._active_bytes > self._segment_bytes
            or max_timestamp > self._roll_timestamp
            or last_offset > self._roll_offset
            or now_ms > self._roll_now_ms
        ) and (self._active_bytes or last_offset - self._base_offset > RELATIVE_OFFSET_MAX):
            self.roll(last_offset - RELATIVE_OFFSET_MAX)

    def roll(self, lowest_base: int = 0) -> None:
        """Write what is staged, leave the active segment and begin a new one (SEG-2).

        It begins at the log end, or at `lowest_base` if that is above it: there is then nothing in
        between. The old segment is flushed in the background. Does nothing to an empty segment that
        begins there. Raises: LogDirectoryError.
        """
        self.write_staged()
        old = self.segments.active
        base_offset = max(self.log_end_offset, lowest_base)
        if old.base_offset == base_offset:
            return
        try:
            if base_offset > self.log_end_offset:
                self.holes.allow_soon(base_offset)
            old.append_final_entry()
            if self._is_preallocated:
                old.trim_file()
            segment = Segment(
                self.disk,
                self.directory,
                base_offset,
                created_ms=self.clock.wall_ms(),
            )
            segment.create(self.config.segment_bytes if self.config.preallocate else 0)
            self.snapshots.take(self.producer_state, self.log_end_offset)
        except OSError as error:
            raise self.fail(self.directory, error) from error
        self.segments.append(segment)
        self.reset_active()
        self._is_preallocated = self.config.preallocate
        self.flushing.note_unsynced(old)
        self.flushing.start_in_background()

    def reset_active(self) -> None:
        """Take over the counters of the active segment, after it has become another one."""
        active = self.segments.active
        self._base_offset = active.base_offset
        self._active_bytes = active.size_bytes
        self._stamped_epoch = -1
        self.count_closed_segments()
        if self.config.segment_jitter_ms > 0:
            active.roll_jitter_ms = self.random.integer(
                min(self.config.segment_jitter_ms, self.config.roll_ms) + 1
            )
        self._set_roll_limits()

    def _set_roll_limits(self) -> None:
        """Precompute when the active segment is left: four comparisons a batch decide it."""
        active = self.segments.active
        wait_ms = max(self.config.roll_ms - active.roll_jitter_ms, 0)
        first = active.first_timestamp
        self._roll_timestamp = self._roll_now_ms = _NEVER
        if first is not None and first >= 0:
            self._roll_timestamp = first + wait_ms
        else:
            self._roll_now_ms = active.created_ms + wait_ms
        self._roll_offset = active.base_offset + RELATIVE_OFFSET_MAX
        self._check_index_room(active)

    def _check_index_room(self, active: Segment) -> None:
        if active.is_index_full(self.config.segment_index_bytes):
            self._roll_offset = -1

    def update_config(self, config: LogConfig) -> None:
        """Take new settings, in force from the next append, read or check on (SEG-14)."""
        self.config = config
        self._validator = BatchValidator(config)
        self._segment_bytes = config.segment_bytes
        self._interval_bytes = config.index_interval_bytes
        self._flush_messages = config.flush_messages
        self._is_log_append_time = config.message_timestamp_type == "LogAppendTime"
        self._set_roll_limits()

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything; the log is then empty at `offset`. Raises: LogDirectoryError."""
        self.check_online()
        truncate_fully_and_start_at(self, offset)

    def discard_staged(self) -> None:
        """Forget what is staged and not written."""
        self._staged, self._staged_aborted = [], []
        self.staged_end_offset = self.log_end_offset


def _batches_of(view: memoryview) -> list[tuple[int, BatchHeader]]:
    """Position and header of each batch. Raises: KafkaError 2, also if none is whole."""
    try:
        batches = list(iterate_headers(view))
    except ParseError as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, error.reason) from error
    if not batches:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "no whole record batch")
    return batches

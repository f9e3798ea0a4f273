"""Loading the files of one partition directory into segments, and recovery after an unclean stop.

Blocks; for a thread. Not here: the scan of one segment (`segment_recovery.py`), whether the last
stop was clean (`log_manager.py`). Source: REC-1, REC-2, REC-10; formats.md sections 5-7.
Invariants: what is returned is consistent: batches without a hole in checks from the recovery
point on, indexes that match, producer state and leader epochs up to the log end offset.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from itertools import pairwise

from barnabas_broker.config.topic import LogConfig
from barnabas_broker.env.disk import Disk
from barnabas_broker.log.batch_scan import scan_batches
from barnabas_broker.log.checkpoints import CheckpointError
from barnabas_broker.log.errors import CorruptionError
from barnabas_broker.log.holes import ANYWHERE, Holes
from barnabas_broker.log.index_file import IndexFile, write_index
from barnabas_broker.log.layout import (
    INDEX_SUFFIX,
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    parse_offset,
    segment_file_name,
)
from barnabas_broker.log.leader_epochs import LEADER_EPOCH_FILE, LeaderEpochs
from barnabas_broker.log.producer_replay import SnapshotFiles, replay
from barnabas_broker.log.producer_state import ProducerState
from barnabas_broker.log.recovery.interrupted_work import (
    finish_interrupted_work,
    remove_segment_files,
)
from barnabas_broker.log.recovery.segment_recovery import (
    ScanResult,
    load_checked_indexes,
    prepare_scan,
    rebuild_indexes,
    recover_segment,
    resume,
)
from barnabas_broker.log.segment import Segment
from barnabas_broker.log.segments import Segments
from barnabas_broker.log.truncation_note import TruncationNote

_logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class LoadedLog:
    """The state of a log as it was found, or put right, on disk."""

    segments: Segments
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    producer_state: ProducerState
    leader_epochs: LeaderEpochs
    snapshots: SnapshotFiles
    holes: Holes
    # Where the last gap ends that may not have been flushed.
    gap_end: int = 0
    truncation: TruncationNote
    # The files are as a clean stop left them, or there never was anything in them.
    is_clean: bool
    # Segments whose files may not be on the device, below the recovery point too: a process that
    # was killed leaves in the page cache what it had not synced.
    unsynced: list[Segment] = field(default_factory=list)

    def write_active_indexes(self) -> None:
        """Put the active segment's indexes on disk, of a log that is not to be opened here.

        Blocks. Raises: OSError.
        """
        active = self.segments.active
        if not active.is_created:
            return
        for index in (active.time_index, active.offset_index):
            if index is not None:
                write_index(active.disk, index.path, *index.pending())


def new_log(disk: Disk, directory: str, now_ms: int) -> LoadedLog:
    """Return a new, empty log in a directory in which there is nothing; no file is touched."""
    segment = Segment(disk, directory, 0, created_ms=now_ms)
    segment.begin()
    return LoadedLog(
        segments=Segments([segment]),
        log_start_offset=0,
        log_end_offset=0,
        recovery_point=0,
        producer_state=ProducerState(),
        leader_epochs=LeaderEpochs(disk, f"{directory}/{LEADER_EPOCH_FILE}"),
        snapshots=SnapshotFiles(disk, directory),
        holes=Holes(disk, directory),
        truncation=TruncationNote(disk, directory),
        is_clean=True,
    )


class LogLoader:
    """Loads one partition directory. Use once: `load`."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        config: LogConfig,
        now_ms: int,
        *,
        compacted_below: int = 0,
        is_page_cache_lost: bool = False,
    ) -> None:
        """Make one. `compacted_below`: where the cleaner's checkpoint says that it has been.

        With `is_page_cache_lost` nothing is believed of what was not flushed.
        """
        self._disk = disk
        self._directory = directory
        self._interval_bytes = config.index_interval_bytes
        # What holds for a log that an earlier release has compacted, without a note.
        self._is_compacted = "compact" in config.cleanup_policy
        self._compacted_below = compacted_below
        self._is_page_cache_lost = is_page_cache_lost
        self._gaps_below = ANYWHERE
        self._gap_end = 0
        self._holes = Holes(disk, directory)
        self._now_ms = now_ms
        self._is_clean = True
        self._unsynced: list[Segment] = []
        self._state = ProducerState()
        self._epochs = LeaderEpochs(disk, "")

    def load(self, *, recovery_point: int, log_start_offset: int, was_clean: bool) -> LoadedLog:
        """Return the log, with at least one segment, whose last is ready for appends.

        `log_start_offset` is the checkpointed one, or 0. Raises: OSError.
        """
        names = finish_interrupted_work(self._disk, self._directory)
        snapshots = SnapshotFiles(self._disk, self._directory, names)
        # Nothing is compacted before it is flushed: behind that, an end was lost.
        truncation = TruncationNote.load(self._disk, self._directory, recovery_point)
        self._load_holes(truncation.flushed_below(recovery_point), was_clean=was_clean)
        checkpointed, recovery_point = recovery_point, truncation.lowered(recovery_point)
        segments = self._find_segments(set(names), ANYWHERE if was_clean else recovery_point)
        self._epochs = self._load_epochs(segments)
        in_file = set(self._epochs.entries)
        end_offset = log_start_offset
        if segments:
            log_start_offset = max(log_start_offset, segments[0].base_offset)
            if was_clean:
                end_offset = self._resume(segments, snapshots, log_start_offset)
            else:
                end_offset = self._recover(segments, snapshots, recovery_point, log_start_offset)
            if end_offset < log_start_offset and not any(item.size_bytes for item in segments):
                # It was cut below its start, and the checkpoint does not know of it yet.
                log_start_offset = end_offset
            if end_offset < log_start_offset:
                _logger.warning(
                    "%s ends at %d, below its start offset %d: all segments are dropped",
                    self._directory,
                    end_offset,
                    log_start_offset,
                )
                self._drop(segments)
                self._is_clean = False
                end_offset = log_start_offset
                self._state.clear(end_offset)
        if not segments:
            segments.append(self._first_segment(end_offset))
            self._state.clear(end_offset)
        snapshots.remove_outside(segments[0].base_offset, end_offset)
        self._epochs.truncate_from_end(end_offset)
        if not in_file.issubset(self._epochs.entries):
            # The batches that contradict the file may be deleted before it is written again.
            self._epochs.flush()
        self._epochs.truncate_from_start(log_start_offset)
        if was_clean:
            truncation.flushed(ANYWHERE)
        elif end_offset < recovery_point:
            truncation.note(end_offset, checkpointed)
        if truncation.offset is not None:
            self._settle_cut(segments[-1], truncation)
            truncation.flushed(min(recovery_point, end_offset))
        self._holes.end_at(end_offset)
        segments[-1].release_file()
        return LoadedLog(
            segments=Segments(segments),
            log_start_offset=log_start_offset,
            log_end_offset=end_offset,
            recovery_point=end_offset if was_clean else min(recovery_point, end_offset),
            producer_state=self._state,
            leader_epochs=self._epochs,
            snapshots=snapshots,
            holes=self._holes,
            gap_end=self._gap_end,
            truncation=truncation,
            is_clean=self._is_clean,
            unsynced=[segment for segment in self._unsynced if segment in segments],
        )

    def _load_holes(self, flushed_below: int, *, was_clean: bool) -> None:
        known = ANYWHERE if was_clean else flushed_below
        unless_noted = max(self._compacted_below, known if self._is_compacted else 0)
        self._holes = Holes.load(self._disk, self._directory, unless_noted)
        if self._is_page_cache_lost and not was_clean:
            self._gaps_below = max(flushed_below, self._holes.below + 1)

    def _settle_cut(self, active: Segment, truncation: TruncationNote) -> None:
        """See to it that no power cut undoes a truncation that the process before began."""
        folder = self._disk.open_directory(self._directory)
        try:
            truncation.sync(folder)
            folder.sync()
        finally:
            folder.close()
        if active.is_created:
            active.file.sync()

    def _load_epochs(self, segments: list[Segment]) -> LeaderEpochs:
        """The leader epochs in their file, or those of all batches if that is lost."""
        path = f"{self._directory}/{LEADER_EPOCH_FILE}"
        try:
            if self._disk.exists(path):
                return LeaderEpochs.load(self._disk, self._directory)
        except CheckpointError as error:
            _logger.warning("%s: leader epochs are taken from the batches", error)
        epochs = LeaderEpochs(self._disk, path)
        filled = [segment for segment in segments if segment.size_bytes]
        if not filled:
            return epochs
        self._is_clean = False
        epochs.note_missing()
        for segment in filled:
            end = segment.size_bytes
            try:
                for _, header, _ in scan_batches(segment.log_path, segment.file, 0, end):
                    epochs.assign(header.leader_epoch, header.base_offset)
            except CorruptionError as error:
                _logger.warning("%s: leader epochs are known up to there", error)
                break
            finally:
                segment.release_file()
        return epochs

    def _find_segments(self, names: set[str], indexed_below: int) -> list[Segment]:
        """The segments by their `.log` files; indexes without one are removed.

        Missing indexes of segments that end below an offset are made anew; a scan makes the others.
        """
        bases = {
            offset
            for name in names
            if name.endswith(LOG_SUFFIX) and (offset := parse_offset(name)) is not None
        }
        for name in names:
            if name.endswith(INDEX_SUFFIXES) and parse_offset(name) not in bases:
                _logger.warning("%s/%s has no log file: removed", self._directory, name)
                self._disk.remove(f"{self._directory}/{name}")
        segments = []
        for base_offset in sorted(bases):
            segment = self._new_segment(base_offset)
            segment.size_bytes = self._disk.size(segment.log_path)
            if segment_file_name(base_offset, TRANSACTION_INDEX_SUFFIX) not in names:
                segment.begin_transaction_index()
            segments.append(segment)
        for segment, following in pairwise(segments):
            if following.base_offset < indexed_below and not all(
                segment_file_name(segment.base_offset, suffix) in names
                for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX)
            ):
                self._rebuild(segment)
        return segments

    def _rebuild(self, segment: Segment) -> None:
        _logger.warning("%s has no index: made anew", segment.log_path)
        try:
            rebuild_indexes(segment, self._interval_bytes)
        except CorruptionError as error:
            # Found below if it lies behind the recovery point; else reads there will fail.
            _logger.error("%s: cannot be indexed", error)
        segment.close()

    def _resume(
        self, segments: list[Segment], snapshots: SnapshotFiles, log_start_offset: int
    ) -> int:
        """Go on with the active segment after a clean stop; returns the log end offset."""
        active = segments[-1]
        try:
            indexes = load_checked_indexes(active, self._interval_bytes)
            active.offset_index, active.time_index = indexes
            file_bytes = active.size_bytes
            end_offset = resume(active, file_bytes)
            if active.size_bytes != file_bytes:
                raise CorruptionError(active.log_path, active.size_bytes, "ends within a batch")
            at = snapshots.restore_newest(self._state, end_offset, log_start_offset)
            replay(self._state, segments, at, end_offset)
        except CorruptionError as error:
            _logger.warning("%s after a clean stop: recovering", error)
            return self._recover(segments, snapshots, active.base_offset, log_start_offset)
        self._state.end_offset = end_offset
        return end_offset

    def _recover(
        self,
        segments: list[Segment],
        snapshots: SnapshotFiles,
        recovery_point: int,
        log_start_offset: int,
    ) -> int:
        """Scan from the recovery point on and cut at the first bad byte; returns the end offset."""
        self._is_clean = False
        first = 0
        # Not the segment that begins at the recovery point, but the one that ends there: a crash
        # may have undone a truncation after which the former was begun.
        while first + 1 < len(segments) and segments[first + 1].base_offset < recovery_point:
            first += 1
        start = prepare_scan(segments[first], recovery_point)
        if segments[first].has_damaged_transactions():
            # What is missing may be older than the start of the scan.
            start = prepare_scan(segments[first], 0)
            recovery_point = min(recovery_point, start[1])
        # Below the recovery point everything is on the device, snapshots too; above, nothing is
        # believed before it was checked.
        known = max(recovery_point, start[1])
        snapshots.remove_outside(0, known)
        at = snapshots.restore_newest(self._state, known, min(log_start_offset, start[1]))
        try:
            replay(self._state, segments[: first + 1], at, start[1])
        except CorruptionError as error:
            _logger.warning("%s, below the recovery point: recovering everything", error)
            return self._recover(segments, snapshots, 0, log_start_offset)
        self._epochs.truncate_from_end(start[1])
        end_offset = start[1]
        for number in range(first, len(segments)):
            segment = segments[number]
            if number > first:
                if segment.base_offset > end_offset and segment.base_offset > self._holes.below:
                    # A segment is begun at the log end: the end of the one before never arrived.
                    self._cut(segments, number, f"{segment.log_path} begins behind a hole")
                    break
                if segment.base_offset < end_offset:
                    # Begun after a truncation of the one before, which the crash has undone.
                    self._cut(segments, number, f"{segment.log_path} begins within the one before")
                    break
                start = prepare_scan(segment, 0)
                snapshots.take(self._state, segment.base_offset)
            following = segments[number + 1].base_offset if number + 1 < len(segments) else None
            result = self._scan(segment, start, following)
            end_offset = result.next_offset
            if result.cut_reason is not None:
                self._cut(segments, number + 1, result.cut_reason)
                break
        if self._state.end_offset > end_offset:
            # Even what was flushed is gone: the snapshot knows producers that the log does not.
            snapshots.remove_outside(0, end_offset)
            at = snapshots.restore_newest(
                self._state, end_offset, min(log_start_offset, end_offset)
            )
            replay(self._state, segments, at, end_offset)
            # Entries below what the snapshot knew were not made anew: their markers may be gone.
            segments[-1].open_transaction_index().truncate_to(end_offset)
        self._state.end_offset = end_offset
        for segment in segments[first:-1]:
            segment.append_final_entry()
        self._unsynced = segments[first:]
        self._write_indexes(self._unsynced)
        return end_offset

    def _scan(
        self, segment: Segment, start: tuple[int, int], following_base: int | None
    ) -> ScanResult:
        result = recover_segment(
            segment,
            start,
            self._interval_bytes,
            self._state,
            self._epochs,
            following_base,
            self._gaps_below,
        )
        self._gap_end = max(self._gap_end, result.gap_end)
        return result

    def _cut(self, segments: list[Segment], count: int, reason: str) -> None:
        """Keep the first segments only."""
        later = segments[count:]
        _logger.warning("%s: the log is cut there, %d later segments go", reason, len(later))
        self._drop(later)
        del segments[count:]

    def _new_segment(self, base_offset: int) -> Segment:
        return Segment(self._disk, self._directory, base_offset, created_ms=self._now_ms)

    def _first_segment(self, base_offset: int) -> Segment:
        """A segment for a log that has none; above 0 its name says where the log goes on."""
        segment = self._new_segment(base_offset)
        if base_offset:
            segment.create()
        else:
            segment.begin()
        return segment

    def _drop(self, segments: list[Segment]) -> None:
        """Remove segments for good: a power cut must not put one behind what is appended now."""
        for segment in segments:
            segment.close()
            remove_segment_files(self._disk, self._directory, segment.base_offset)
        if segments:
            self._disk.sync_directory(self._directory)
        segments.clear()

    def _write_indexes(self, segments: list[Segment]) -> None:
        """Write what the scan made of segments that are not active.

        The next recovery begins where an offset index on the device ends: what the others have
        up to there is put on it first. Of the active segment's the files keep what is believed, and
        the rest is in memory for the next flush to write. What is not synced here is in `unsynced`,
        for the same flush.
        """
        for segment in segments[:-1]:
            assert segment.offset_index is not None
            assert segment.time_index is not None
            segment.open_transaction_index().sync(self._directory)
            for index in (segment.time_index, segment.offset_index):
                position, data = index.pending()
                is_first = index is segment.time_index
                write_index(self._disk, index.path, position, data, sync=is_first)
                index.mark_written(position + len(data))
            segment.drop_indexes()
            segment.close()
        active = segments[-1]
        for kept in (active.offset_index, active.time_index):
            assert kept is not None
            self._cut_index(kept)

    def _cut_index(self, index: IndexFile) -> None:
        """Take away what the file has behind the entries that are believed: it is of other batches.

        Where none are, because there is damage, the offset index is so on the device first.
        """
        file = self._disk.open(index.path, create=True)
        try:
            if file.size() != index.written_bytes:
                file.truncate(index.written_bytes)
                if not index.written_bytes:
                    file.sync()
        finally:
            file.close()

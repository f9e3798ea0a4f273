"""Cutting a partition log at its end, as a follower does that has other records than its leader.

Runs on the loop: it is rare, and nothing may come between its steps. The loop waits for no device,
so a power cut may undo a truncation, in part too, until `settle` has returned. Source: behaviour
REC-5, `docs/decisions/0018-no-fsync-on-the-loop.md`. Invariants: afterwards no batch at or above
the offset is left, in no file; indexes, leader epochs and producer state are those of a log that
was never longer. Whoever cuts a log settles it before it appends, and before it tells anybody where
the log ends; a segment is cut only after the removal of those behind it is settled, or a power cut
could leave a hole between them. A process that was killed in between is told so by a file, and the
next one settles the cut before it opens the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas_broker.log.errors import CorruptionError
from barnabas_broker.log.index_file import write_index
from barnabas_broker.log.layout import INDEX_SUFFIX, TIME_INDEX_SUFFIX, UNSETTLED_CUT_FILE
from barnabas_broker.log.producer_replay import replay
from barnabas_broker.log.segment import Segment
from barnabas_broker.log.segment_recovery import load_checked_indexes, resume
from barnabas_protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from barnabas_broker.env.disk import DiskDirectory, DiskFile
    from barnabas_broker.log.holes import Holes
    from barnabas_broker.log.leader_epochs import LeaderEpochs
    from barnabas_broker.log.log_writer import LogWriter


def truncation_step(log: LogWriter, offset: int) -> int:
    """How far a truncation to `offset` may go before it has to be settled."""
    kept = log.segments.floor(max(offset - 1, 0))
    lowest = max(log.segments.first.base_offset, log.log_start_offset)
    if offset < lowest or kept is log.segments.active:
        return offset
    following = log.segments.after(kept)
    assert following is not None
    if following.base_offset >= log.log_end_offset:
        return offset  # behind it there is only the empty segment of a roll: no hole can matter
    return following.base_offset


async def settle(log: LogWriter) -> None:
    """Return when no crash can bring back what was cut off the log. Raises: OSError.

    No flush runs meanwhile: its thread would write the note of holes and the indexes, too.
    """
    if not log.is_cut_unsettled:
        return
    async with log.flushing.paused():
        while log.is_cut_unsettled and not log.is_offline:
            await _settle_once(log)


async def _settle_once(log: LogWriter) -> None:
    log.is_cut_unsettled = False
    folder = log.disk.open_directory(log.directory)
    try:
        active = log.segments.active
        epochs, holes = log.leader_epochs, log.holes
        await log.disk.run(
            _settle, folder, active.file, _index_ends(active), epochs, holes, holes.below
        )
        if not log.is_cut_unsettled and not log.is_offline:
            log.disk.remove(f"{log.directory}/{UNSETTLED_CUT_FILE}")
    except BaseException:
        log.is_cut_unsettled = True
        raise
    finally:
        folder.close()


def _note_cut(log: LogWriter) -> None:
    """Note that the log is being cut, in memory and for the next process. Raises: OSError."""
    log.generation += 1
    log.is_cut_unsettled = log.is_cut_unnoted = True
    log.disk.open(f"{log.directory}/{UNSETTLED_CUT_FILE}", create=True).close()


def _index_ends(segment: Segment) -> list[tuple[str, int]]:
    """Where the index files are to end; no offset index is ever ahead of its time index."""
    indexes = ((segment.offset_index, INDEX_SUFFIX), (segment.time_index, TIME_INDEX_SUFFIX))
    return [
        (segment.name(suffix), index.written_bytes)
        for index, suffix in indexes
        if index is not None
    ]


def _settle(
    folder: DiskDirectory,
    file: DiskFile,
    index_ends: list[tuple[str, int]],
    leader_epochs: LeaderEpochs,
    holes: Holes,
    holes_below: int,
) -> None:
    """In a thread: names and content, the indexes, then the leader epochs and the note of holes."""
    folder.sync()
    file.sync()
    for name, end in index_ends:
        write_index(folder, name, end, b"")
    leader_epochs.flush(folder)
    holes.flush(folder, holes_below)


def truncate_to(log: LogWriter, offset: int) -> bool:
    """Make `offset` the log end; returns whether it was below it. Raises: LogDirectoryError."""
    try:
        log.write_staged()
        if offset >= log.log_end_offset:
            # A leader that was deposed before it appended anything has noted an epoch without
            # records: its new leader would let it diverge there again and again.
            # A start after a crash drops that note as well: it need not be settled.
            log.leader_epochs.truncate_from_end(log.log_end_offset)
            return False
        first_base = log.segments.first.base_offset
        if offset < first_base or (first_base < offset <= log.log_start_offset):
            # Nothing that is left of the log can be read: it is an empty one, also for a start
            # that still finds the old log start in its checkpoint. A segment that is empty below
            # the log start would be one whose end was lost, for the next one to begin behind.
            truncate_fully_and_start_at(log, offset)
            return True
        _note_cut(log)
        log.drop_completed_output()
        # The segment that ends where the offset is stays, an empty one behind it does not (REC-5).
        kept = log.segments.floor(max(offset - 1, 0))
        gone = [item for item in log.segments.values() if item.base_offset > kept.base_offset]
        log.segments.remove(gone)
        log.removal.remove(gone)
        log.snapshots.remove_outside(0, offset)
        log.holes.forget_from(offset)
        _cut(log, kept, offset)
        log.tail.clear()
        log.leader_epochs.truncate_from_end(offset)
        at = log.snapshots.restore_newest(
            log.producer_state, offset, min(log.log_start_offset, offset)
        )
        replay(log.producer_state, log.segments.values(), at, offset)
        log.producer_state.end_offset = offset
    except OSError as error:
        raise log.fail(log.directory, error) from error
    except CorruptionError as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    _set_end(log, offset)
    log.producer_state.advance_high_watermark(log.high_watermark)
    return True


def truncate_fully_and_start_at(log: LogWriter, offset: int) -> None:
    """Drop all segments; one empty one at `offset` is left. Raises: LogDirectoryError."""
    log.discard_staged()
    gone = log.segments.values()
    try:
        _note_cut(log)
        log.drop_completed_output()
        log.segments.remove(gone)
        log.removal.remove(gone)
        segment = Segment(log.disk, log.directory, offset, created_ms=log.clock.wall_ms())
        segment.create()
        log.segments.append(segment)
        log.snapshots.remove_outside(offset, offset - 1)
        log.holes.forget_from(offset)
    except OSError as error:
        raise log.fail(log.directory, error) from error
    log.tail.clear()
    log.leader_epochs.clear()
    log.producer_state.clear(offset)
    log.log_start_offset = offset
    _set_end(log, offset)
    log.recovery_point = log.high_watermark = offset


def _cut(log: LogWriter, segment: Segment, offset: int) -> None:
    """Cut the segment before the batch that reaches up to `offset`, and make it the active one."""
    log.index_cache.forget(segment)
    if segment.offset_index is None or segment.time_index is None:
        indexes = load_checked_indexes(segment, log.config.index_interval_bytes, is_durable=False)
        segment.offset_index, segment.time_index = indexes
    end = segment.size_bytes
    segment.offset_index.truncate_to(offset)
    segment.time_index.truncate_to(offset)
    resume(segment, end, below=offset)
    segment.file.truncate(segment.size_bytes)
    segment.open_transaction_index().truncate_to(offset)


def _set_end(log: LogWriter, offset: int) -> None:
    log.log_end_offset = log.staged_end_offset = offset
    log.recovery_point = min(log.recovery_point, offset)
    log.acknowledged_offset = min(log.acknowledged_offset, offset)
    log.high_watermark = min(log.high_watermark, offset)
    log.log_start_offset = min(log.log_start_offset, offset)
    log.reset_active()
    log.flushing.note_truncation()

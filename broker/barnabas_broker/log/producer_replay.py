"""Bringing a producer state up to an offset from snapshot files and the batches of the log.

Not here: the state (`producer_state.py`), the snapshot's bytes (`producer_snapshot.py`). Source:
formats.md section 7; TXL-8, REC-5. Invariant: the state depends only on the batches, so
any snapshot that passes its CRC gives the same result.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from barnabas_broker.env.disk import Disk, DiskDirectory
from barnabas_broker.log.batch_scan import scan_batches
from barnabas_broker.log.errors import CorruptionError
from barnabas_broker.log.layout import SNAPSHOT_SUFFIX, parse_offset, segment_file_name
from barnabas_broker.log.producer_snapshot import SnapshotError, decode_snapshot, encode_snapshot
from barnabas_broker.log.producer_state import ProducerState
from barnabas_broker.log.segment import Segment
from barnabas_broker.log.transaction_index import AbortedTransaction
from barnabas_protocol.errors import ParseError
from barnabas_protocol.records.batch import COMPRESSION_MASK, BatchHeader
from barnabas_protocol.records.control import (
    ControlType,
    TransactionMarker,
    plain_marker,
    read_marker,
)
from barnabas_protocol.records.record import decode_records

_logger = logging.getLogger(__name__)


class SnapshotFiles:
    """The snapshot files of one partition directory, by offset."""

    __slots__ = ("_disk", "directory", "offsets")

    def __init__(self, disk: Disk, directory: str, names: Iterable[str] = ()) -> None:
        self._disk = disk
        self.directory = directory
        found = (parse_offset(name) for name in names if name.endswith(SNAPSHOT_SUFFIX))
        self.offsets = {offset for offset in found if offset is not None}

    def path(self, offset: int) -> str:
        """The path of the snapshot of everything below `offset`."""
        return f"{self.directory}/{segment_file_name(offset, SNAPSHOT_SUFFIX)}"

    def write(self, offset: int, data: bytes) -> None:
        """Write a snapshot's file, whose CRC shows if it is torn; `offsets` is left to the caller.

        Raises: OSError.
        """
        file = self._disk.open(self.path(offset), create=True)
        try:
            file.truncate(0)
            file.append([data])
        finally:
            file.close()

    def take(self, state: ProducerState, offset: int) -> None:
        """Write the snapshot of a state that is at `offset`. Raises: OSError."""
        self.write(offset, encode_snapshot(state))
        self.offsets.add(offset)

    def restore_newest(self, state: ProducerState, at_most: int, at_least: int) -> int:
        """Put the newest good snapshot into `state`; returns its offset.

        Without one in [at_least, at_most] the state is empty and at `at_least`. Broken snapshots
        are removed. Raises: OSError.
        """
        for offset in sorted(self.offsets, reverse=True):
            if not at_least <= offset <= at_most:
                continue
            try:
                entries = decode_snapshot(self._disk.read_bytes(self.path(offset)))
            except SnapshotError as error:
                _logger.warning("%s is discarded: %s", self.path(offset), error)
                self.remove(offset)
                continue
            state.restore(entries, offset)
            return offset
        state.clear(at_least)
        return at_least

    def prune(self, base_offsets: Iterable[int]) -> None:
        """Remove all but the two newest and those of the given segments. Raises: OSError.

        The recovery point in its checkpoint may still be that of the flush before the last.
        """
        between = sorted(self.offsets - set(base_offsets))
        for offset in between[:-2]:
            self.remove(offset)

    def remove_outside(self, start: int, end: int) -> int:
        """Remove the snapshots below `start` and above `end`; returns how many. Raises: OSError."""
        gone = [offset for offset in self.offsets if not start <= offset <= end]
        for offset in gone:
            self.remove(offset)
        return len(gone)

    def remove(self, offset: int) -> None:
        """Remove one. Raises: OSError."""
        self.offsets.discard(offset)
        try:
            self._disk.remove(self.path(offset))
        except FileNotFoundError:
            _logger.debug("%s was gone already", self.path(offset))


def write_snapshot(folder: DiskDirectory, offset: int, data: bytes) -> None:
    """Put a snapshot's file on the device; its name is the caller's to sync. For a thread."""
    file = folder.open(segment_file_name(offset, SNAPSHOT_SUFFIX), create=True)
    try:
        file.truncate(0)
        file.append([data])
        file.sync()
    finally:
        file.close()


def marker_of(batch: memoryview, header: BatchHeader) -> TransactionMarker | None:
    """The commit or abort marker in a control batch; None for others and for emptied ones.

    Raises: ParseError.
    """
    if not header.is_control or not header.record_count:
        return None
    if header.record_count == 1 and not header.attributes & COMPRESSION_MASK:
        marker = plain_marker(batch)
        if marker is not None:
            return marker
    return read_marker(decode_records(batch)[0])


def apply_batch(
    state: ProducerState, header: BatchHeader, batch: memoryview
) -> AbortedTransaction | None:
    """Apply a batch of the log to the state; returns the transaction that it aborted, if any.

    Raises: ParseError for a control record that cannot be read.
    """
    marker = marker_of(batch, header)
    if marker is None:
        if not header.is_control:
            state.append(header)
        else:
            state.end_offset = header.last_offset + 1
        return None
    completed = state.append_marker(
        header,
        is_abort=marker.control_type == ControlType.ABORT,
        coordinator_epoch=marker.coordinator_epoch,
    )
    return state.aborted(completed) if completed and completed.is_aborted else None


def replay(
    state: ProducerState, segments: Sequence[Segment], from_offset: int, end_offset: int
) -> None:
    """Apply the batches in [from_offset, end_offset) to a state that is at `from_offset`.

    Checks no CRC: the bytes were checked when they were appended or recovered.
    Raises: OSError, CorruptionError.
    """
    for number, segment in enumerate(segments):
        is_last = number + 1 == len(segments)
        if not is_last and segments[number + 1].base_offset <= from_offset:
            continue
        if segment.base_offset >= end_offset:
            return
        position = segment.position_hint(from_offset)
        for at, header, batch in scan_batches(
            segment.log_path, segment.file, position, segment.size_bytes
        ):
            if header.last_offset < from_offset:
                continue
            if header.base_offset >= end_offset:
                return
            try:
                apply_batch(state, header, batch)
            except ParseError as error:
                raise CorruptionError(segment.log_path, at, error.reason) from error

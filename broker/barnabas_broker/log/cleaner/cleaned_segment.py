"""The segment that compaction writes, and its way into the log.

    <base>.log.cleaned ...   while it is written; a crash leaves the old segments
    <base>.log.swap ...      flushed and complete; a crash from here on ends with the new one
    <base>.log ...           in service, the old files renamed to `.deleted` just before

Not here: what is written (`compaction`). The start-up treatment of these names is in `log_loader`.
Source: REC-10; formats.md 5. Invariant: everything of the output is on disk before the
first file gets its `.swap` name, and every file has its `.swap` name before an old file is touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas_broker.log.index_file import write_index
from barnabas_broker.log.layout import (
    CLEANED_FILE_SUFFIX,
    INDEX_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_FILE_SUFFIX,
    TIME_INDEX_SUFFIX,
)
from barnabas_broker.log.segment import Segment
from barnabas_broker.log.time_index import NO_TIMESTAMP

if TYPE_CHECKING:
    from barnabas_broker.env.disk import Buffer, Disk, DiskDirectory
    from barnabas_broker.log.transaction_index import AbortedTransaction
    from barnabas_protocol.records.batch import BatchHeader


class CleanedSegment:
    """An output segment under construction. Blocks: used in the disk's threads, one step at a
    time.
    """

    __slots__ = ("_interval_bytes", "batch_count", "segment")

    def __init__(
        self, disk: Disk, directory: str, base_offset: int, created_ms: int, interval_bytes: int
    ) -> None:
        remove_files(disk, directory, base_offset, CLEANED_FILE_SUFFIX)
        self._interval_bytes = interval_bytes
        self.batch_count = 0
        self.segment = Segment(
            disk,
            directory,
            base_offset,
            created_ms=created_ms,
            name_suffix=CLEANED_FILE_SUFFIX,
        )
        self.segment.create()

    def append(self, batches: Sequence[tuple[BatchHeader, Buffer]]) -> None:
        """Write whole batches, given with their headers. Raises: OSError."""
        if not batches:
            return
        self.segment.file.append([data for _, data in batches])
        for header, data in batches:
            # A batch without records has no record that a look-up by timestamp could find.
            timestamp = header.max_timestamp if header.record_count else NO_TIMESTAMP
            self.segment.note_batch(header.last_offset, timestamp, len(data), self._interval_bytes)
        self.batch_count += len(batches)

    def append_aborted(self, transactions: Sequence[AbortedTransaction]) -> None:
        """Add to the transaction index. Raises: OSError."""
        for transaction in transactions:
            self.segment.open_transaction_index().append(transaction)

    def finish(self, folder: DiskDirectory) -> None:
        """Put the output on the device, by the handle of the log's folder. Raises: OSError."""
        segment = self.segment
        segment.append_final_entry()
        assert segment.offset_index is not None
        assert segment.time_index is not None
        write_index(folder, segment.name(INDEX_SUFFIX), *segment.offset_index.pending())
        write_index(folder, segment.name(TIME_INDEX_SUFFIX), *segment.time_index.pending())
        if segment.transaction_index is not None:
            segment.transaction_index.flush()
        segment.file.sync()

    def complete(self, modified_ms: int) -> None:
        """On the loop: give the finished output its `.swap` names, for the caller to sync.

        From then on a start puts it in service, until `discard`. Raises: OSError.
        """
        segment = self.segment
        segment.disk.set_modified_ms(segment.log_path, modified_ms)
        segment.drop_indexes()
        segment.close()
        self._rename(SWAP_FILE_SUFFIX)

    def discard(self) -> None:
        """Remove the output, whichever of its names it has. Raises: OSError."""
        segment = self.segment
        segment.close()
        if segment.name_suffix == SWAP_FILE_SUFFIX:
            # With this one step it is incomplete again: a start that finds the rest removes it.
            path = segment.log_path
            segment.name_suffix = CLEANED_FILE_SUFFIX
            if segment.disk.exists(path):
                segment.disk.rename(path, segment.log_path)
            remove_files(segment.disk, segment.directory, segment.base_offset, SWAP_FILE_SUFFIX)
        remove_files(segment.disk, segment.directory, segment.base_offset, segment.name_suffix)

    def put_in_service(self) -> Segment:
        """Give the output its final names and return it; the old files must be out of the way."""
        self._rename("")
        return self.segment

    def _rename(self, suffix: str) -> None:
        """Change the suffix of every file of the segment, the `.log` file first.

        On the way to `.swap` the order does not matter: as long as one file is `.cleaned`, start-up
        drops them all. On the way into service, start-up removes what a `.log.swap` covers, which
        must not hit an index that has its final name already.
        """
        segment = self.segment
        old_paths = [segment.path(kind) for kind in SEGMENT_SUFFIXES]
        segment.name_suffix = suffix
        new_paths = [segment.path(kind) for kind in SEGMENT_SUFFIXES]
        for old, new in zip(old_paths, new_paths, strict=True):
            if segment.disk.exists(old):
                segment.disk.rename(old, new)


def remove_files(disk: Disk, directory: str, base_offset: int, suffix: str) -> None:
    """Remove what an earlier, interrupted output may have left. Raises: OSError."""
    leftover = Segment(disk, directory, base_offset, created_ms=0, name_suffix=suffix)
    for kind in SEGMENT_SUFFIXES:
        if disk.exists(leftover.path(kind)):
            disk.remove(leftover.path(kind))

"""The segment that compaction writes, and its way into the log.

    <base>.log.cleaned ...   while it is written; a crash leaves the old segments
    <base>.log.swap ...      flushed and complete; a crash from here on ends with the new one
    <base>.log ...           in service, the old files renamed to `.deleted` just before

Not here: what is written (`compaction`). The start-up treatment of these names is in `recovery`.
Source: behaviour REC-10; formats.md 5. Invariant: everything of the output is on disk before the
first file gets its `.swap` name, and every file has its `.swap` name before an old file is touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas_broker.log.index_file import write_index
from barnabas_broker.log.layout import (
    CLEANED_FILE_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_FILE_SUFFIX,
)
from barnabas_broker.log.segment import Segment
from barnabas_broker.log.time_index import NO_TIMESTAMP

if TYPE_CHECKING:
    from barnabas_broker.env.disk import Buffer, Disk
    from barnabas_broker.log.partition_log import PartitionLog
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

    def finish(self, modified_ms: int) -> None:
        """Put the output on disk and give it its `.swap` names. Raises: OSError."""
        segment = self.segment
        segment.append_final_entry()
        assert segment.offset_index is not None
        assert segment.time_index is not None
        for index in (segment.offset_index, segment.time_index):
            write_index(segment.disk, index.path, *index.pending(), sync=True)
        if segment.transaction_index is not None:
            segment.transaction_index.flush()
        segment.file.sync()
        segment.disk.set_modified_ms(segment.log_path, modified_ms)
        segment.drop_indexes()
        segment.close()
        self._rename(SWAP_FILE_SUFFIX)
        segment.disk.sync_directory(segment.directory)

    def discard(self) -> None:
        """Remove the output, whichever of its names it has. Raises: OSError."""
        segment = self.segment
        segment.close()
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


def swap_in(log: PartitionLog, output: CleanedSegment, old: Sequence[Segment]) -> Segment:
    """Replace segments of a log by a finished output, in one go on the loop; returns the new one.

    The old files are removed after the usual delay, so reads under way can finish. Raises: OSError.
    """
    log.removal.remove(old)
    segment = output.put_in_service()
    log.segments.replace(old, [segment])
    # What is cached may hold records of aborted transactions that the new index no longer lists.
    log.tail.clear()
    log.closed_segments_bytes += segment.size_bytes - sum(item.size_bytes for item in old)
    return segment


def remove_files(disk: Disk, directory: str, base_offset: int, suffix: str) -> None:
    """Remove what an earlier, interrupted output may have left. Raises: OSError."""
    leftover = Segment(disk, directory, base_offset, created_ms=0, name_suffix=suffix)
    for kind in SEGMENT_SUFFIXES:
        if disk.exists(leftover.path(kind)):
            disk.remove(leftover.path(kind))

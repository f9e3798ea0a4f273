"""One segment of a partition log: a `.log` file, its indexes, and when an index entry is due.

Not here: which segment is active and when to roll (`partition_log.py`), reading batches
(`batch_scan.py`, `log_reader.py`), rebuilding indexes (`log_loader.py`).

Source: Kafka's LogSegment; SEG-1 to SEG-3. Invariants: `size_bytes` counts whole batches
only; the indexes of the active segment are always in memory, those of others come when needed and
may go again (`drop_indexes`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from barnabas_broker.env.disk import Disk, DiskFile
from barnabas_broker.log.errors import SegmentRenamedError
from barnabas_broker.log.layout import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_file_name,
)
from barnabas_broker.log.offset_index import OffsetIndex
from barnabas_broker.log.time_index import NO_TIMESTAMP, TimeIndex
from barnabas_broker.log.transaction_index import TransactionIndex

RELATIVE_OFFSET_MAX = 2**31 - 1


class Segment:
    """The files of one segment. `created_ms` is the wall clock when it was made or loaded."""

    __slots__ = (
        "_file",
        "_is_created",
        "_renamings",
        "base_offset",
        "bytes_since_entry",
        "created_ms",
        "directory",
        "disk",
        "first_timestamp",
        "largest_timestamp",
        "largest_timestamp_offset",
        "name_suffix",
        "offset_index",
        "roll_jitter_ms",
        "size_bytes",
        "time_index",
        "transaction_index",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: int,
        *,
        created_ms: int,
        name_suffix: str = "",
    ) -> None:
        self.disk = disk
        self.directory = directory
        self.base_offset = base_offset
        self.created_ms = created_ms
        self.name_suffix = name_suffix
        self.size_bytes = 0
        # Of the first batch, for rolling by time; None until it is known (empty, or not read yet).
        self.first_timestamp: int | None = None
        # The largest timestamp and the last offset of its batch; offset -1 = not known yet.
        self.largest_timestamp = NO_TIMESTAMP
        self.largest_timestamp_offset = -1
        self.bytes_since_entry = 0
        self.roll_jitter_ms = 0
        self._file: DiskFile | None = None
        self._is_created = True
        # How often renaming its files has begun or ended: odd while it is under way.
        self._renamings = 0
        self.offset_index: OffsetIndex | None = None
        self.time_index: TimeIndex | None = None
        # Opened when the first aborted transaction is written or looked for.
        self.transaction_index: TransactionIndex | None = None

    def path(self, suffix: str) -> str:
        """The path of one of the segment's files, as it is named now."""
        return f"{self.directory}/{self.name(suffix)}"

    def name(self, suffix: str) -> str:
        """The name of one of the segment's files, as it is now."""
        return segment_file_name(self.base_offset, suffix) + self.name_suffix

    @property
    def log_path(self) -> str:
        """The path of the `.log` file."""
        return self.path(LOG_SUFFIX)

    @property
    def is_created(self) -> bool:
        """Whether there is a `.log` file; a new log has none before its first batch."""
        return self._is_created

    @property
    def file(self) -> DiskFile:
        """The open `.log` file, created if this is its first use. Raises: OSError."""
        file = self._file  # read once: a thread uses it, and the loop may release it
        if file is None:
            file = self._file = self.open_files(LOG_SUFFIX, create=not self._is_created)[0]
            self._is_created = True
        return file

    def open_files(self, *suffixes: str, create: bool = False) -> list[DiskFile]:
        """Open some of the segment's files, and no others that have their names by now.

        A thread finds files by their names while the loop may rename them, and give the names to
        others. Raises: SegmentRenamedError if it did; OSError.
        """
        renamings = self._renamings
        try:
            files = [self.disk.open(self.path(suffix), create=create) for suffix in suffixes]
        except FileNotFoundError as error:
            if self._renamings == renamings and not renamings % 2:
                raise
            raise SegmentRenamedError(self.log_path) from error
        if self._renamings != renamings or renamings % 2:
            for file in files:
                file.close()
            raise SegmentRenamedError(self.log_path)
        return files

    @contextmanager
    def opened(self) -> Iterator[DiskFile]:
        """The `.log` file for one look at it: it stays open where it was, and else does not.

        There may be very many segments. Raises: as `open_files`.
        """
        file = self._file
        if file is not None or not self._is_created:
            yield self.file if file is None else file
            return
        (file,) = self.open_files(LOG_SUFFIX)
        try:
            yield file
        finally:
            file.close()

    @contextmanager
    def renaming(self) -> Iterator[None]:
        """Rename the files, or the folder they are in, within this context: the loop's affair."""
        self._renamings += 1
        try:
            yield
        finally:
            self._renamings += 1

    def move_to(self, directory: str) -> None:
        """Find the files under another folder's name from now on."""
        self.directory = directory
        if self.offset_index is not None:
            self.offset_index.path = self.path(INDEX_SUFFIX)
        if self.time_index is not None:
            self.time_index.path = self.path(TIME_INDEX_SUFFIX)
        if self.transaction_index is not None:
            self.transaction_index.path = self.path(TRANSACTION_INDEX_SUFFIX)

    def begin(self) -> None:
        """Make this a new, empty segment with indexes in memory; its files come when first used.

        The `.log` file with the first batch, the indexes with the first flush.
        """
        self._is_created = False
        self.offset_index = OffsetIndex(self.path(INDEX_SUFFIX), self.base_offset)
        self.time_index = TimeIndex(self.path(TIME_INDEX_SUFFIX), self.base_offset)
        self.largest_timestamp_offset = self.base_offset

    def create(self, preallocate_bytes: int = 0) -> None:
        """As `begin`, with the `.log` file: its name says where the log goes on.

        A preallocated log file is longer than its batches until `trim_file`; it is written by
        position. Raises: OSError.
        """
        self.begin()
        file = self.file
        if file.size():  # a crash left something; else ext4 would still take its time
            file.truncate(0)
        if preallocate_bytes:
            file.truncate(preallocate_bytes)

    def note_batch(
        self, last_offset: int, largest_timestamp: int, size: int, interval_bytes: int
    ) -> None:
        """Account for the batch that was appended at `size_bytes`, in the order of the log.

        An index entry is due if more than `interval_bytes` lie between the previous entry's batch
        and this one's start; then it names this batch (SEG-3). The indexes must be in memory.
        """
        if largest_timestamp > self.largest_timestamp:
            self.largest_timestamp = largest_timestamp
            self.largest_timestamp_offset = last_offset
        if self.bytes_since_entry > interval_bytes:
            assert self.offset_index is not None
            assert self.time_index is not None
            self.offset_index.append(last_offset, self.size_bytes)
            self.time_index.append_if_later(self.largest_timestamp, self.largest_timestamp_offset)
            self.bytes_since_entry = 0
        if self.first_timestamp is None:
            self.first_timestamp = largest_timestamp
        self.size_bytes += size
        self.bytes_since_entry += size

    def append_final_entry(self) -> None:
        """Add the largest timestamp to the time index, as is due when a segment is left (SEG-2)."""
        if self.time_index is not None:
            self.time_index.append_if_later(self.largest_timestamp, self.largest_timestamp_offset)

    def is_index_full(self, index_bytes_max: int) -> bool:
        """Whether no further entry fits, with one place of the time index kept for the final."""
        assert self.offset_index is not None
        assert self.time_index is not None
        return (
            len(self.offset_index.entries) >= index_bytes_max - index_bytes_max % 8
            or self.time_index.count >= index_bytes_max // 12 - 1
        )

    def load_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        """Both indexes as they are in the files, unchecked; they are not kept in the segment.

        Raises: OSError, FileNotFoundError if one is missing.
        """
        offset_file, time_file = self.open_files(INDEX_SUFFIX, TIME_INDEX_SUFFIX)
        try:
            offset_entries = offset_file.read(offset_file.size(), 0)
            time_entries = time_file.read(time_file.size(), 0)
        finally:
            offset_file.close()
            time_file.close()
        return (
            OffsetIndex(self.path(INDEX_SUFFIX), self.base_offset, offset_entries),
            TimeIndex(self.path(TIME_INDEX_SUFFIX), self.base_offset, time_entries),
        )

    def position_hint(self, offset: int) -> int:
        """A batch's start at or before the batch that holds `offset`; 0 without indexes."""
        index = self.offset_index  # read once: a thread uses it, and the loop may drop it
        return index.lookup(offset)[1] if index is not None else 0

    @property
    def index_bytes(self) -> int:
        """How much memory the indexes take."""
        if self.offset_index is None or self.time_index is None:
            return 0
        return len(self.offset_index.entries) + len(self.time_index.entries)

    @property
    def has_written_indexes(self) -> bool:
        """Whether the indexes are in memory and their files have everything."""
        return (
            self.offset_index is not None
            and self.time_index is not None
            and self.offset_index.is_written
            and self.time_index.is_written
        )

    def drop_indexes(self) -> None:
        """Let go of the indexes of a segment that is not active; their files have everything."""
        self.offset_index = self.time_index = None

    def open_transaction_index(self) -> TransactionIndex:
        """The index of aborted transactions, empty if there is no file. Raises: OSError."""
        if self.transaction_index is None:
            path = self.path(TRANSACTION_INDEX_SUFFIX)
            self.transaction_index = TransactionIndex(self.disk, path, self.base_offset)
        return self.transaction_index

    def begin_transaction_index(self) -> None:
        """Note that there is no file of aborted transactions: nobody needs to look for one."""
        path = self.path(TRANSACTION_INDEX_SUFFIX)
        self.transaction_index = TransactionIndex(self.disk, path, self.base_offset, is_new=True)

    def has_damaged_transactions(self) -> bool:
        """Whether something is wrong with the index of aborted transactions. Raises: OSError."""
        return self.open_transaction_index().is_damaged

    def trim_file(self) -> None:
        """Cut what lies behind the last batch: preallocated zeros. Raises: OSError."""
        if self.file.size() > self.size_bytes:
            self.file.truncate(self.size_bytes)

    def release_file(self) -> None:
        """Let go of the `.log` file until the next use: few of many segments are in use at once."""
        self._file = None

    def close(self) -> None:
        """Let go of the files; nothing is written. The next use opens them again.

        They close with their last user: a thread may be at work with one, and would otherwise find
        its descriptor gone, or worse, that of another file.
        """
        self._file = None
        self.transaction_index = None

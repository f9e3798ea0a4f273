"""One round of compaction on one log: map the newest offsets of the keys, then rewrite the
segments.

The blocking work is written as generators that yield the bytes they read after each batch; `run`
pumps them in small steps through the disk's threads, so that the loop gets its turn between steps
and the rate can be limited. Not here: which log and when (`log_cleaner`), what becomes of a batch
(`batch_filter`), the output files (`cleaned_segment`).

Source: REC-6 to REC-11. Invariants: the source files are only read, through handles of
our own, until the swap; the swap happens only if every source segment is still in the log as it
was; it is not interrupted by anything else that runs on the loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from barnabas_broker.log.batch_scan import scan_batches
from barnabas_broker.log.cleaner.batch_filter import CleaningRules, clean_batch
from barnabas_broker.log.cleaner.cleanable_logs import (
    CleanableSegment,
    CompactionPlan,
    group_segments,
)
from barnabas_broker.log.cleaner.cleaned_segment import CleanedSegment
from barnabas_broker.log.cleaner.cleaned_transactions import CleanedTransactions
from barnabas_broker.log.cleaner.offset_map import OffsetMap
from barnabas_broker.log.errors import CorruptionError
from barnabas_broker.log.layout import CLEANED_FILE_SUFFIX, LOG_SUFFIX, TRANSACTION_INDEX_SUFFIX
from barnabas_broker.log.transaction_index import AbortedTransaction, TransactionIndex
from barnabas_protocol.errors import ParseError
from barnabas_protocol.records.batch import BatchHeader, check_crc, read_header
from barnabas_protocol.records.record import decode_records

if TYPE_CHECKING:
    from barnabas_broker.env.disk import Buffer, Disk, DiskDirectory
    from barnabas_broker.log.partition_log import PartitionLog
    from barnabas_broker.log.segment import Segment

# Python holds its lock while a step runs: small steps keep the loop's waits in the low
# milliseconds.
STEP_BYTES = 64 * 1024
WRITE_BYTES = 512 * 1024
DECOMPRESSED_BYTES_MAX = 256 * 1024 * 1024

Throttle = Callable[[int], Awaitable[None]]


class LogChangedError(Exception):
    """The log was truncated, trimmed or deleted meanwhile: this round is void, nothing is lost."""


class _Source:
    """A closed segment as it was when the round began."""

    __slots__ = ("facts", "log_path", "modified_ms", "segment")

    def __init__(self, segment: Segment, facts: CleanableSegment) -> None:
        self.segment = segment
        self.facts = facts
        self.log_path = segment.log_path
        self.modified_ms = 0


class Compaction:
    """A round on `log`, as planned. Use once: `run`."""

    __slots__ = (
        "_aborted",
        "_closed",
        "_disk",
        "_generation",
        "_holes_below",
        "_is_current",
        "_log",
        "_map",
        "_now_ms",
        "_plan",
        "_rules",
        "_sources",
        "_transaction_paths",
        "_transactions",
        "bytes_read",
        "bytes_written",
    )

    def __init__(
        self,
        disk: Disk,
        log: PartitionLog,
        plan: CompactionPlan,
        facts: Sequence[CleanableSegment],
        *,
        map_bytes: int,
        now_ms: int,
        forgets_deletions: bool,
        is_current: Callable[[], bool],
    ) -> None:
        self._disk = disk
        self._log = log
        self._plan = plan
        self._now_ms = now_ms
        self._is_current = is_current
        self._generation = log.generation
        self._map = OffsetMap(map_bytes, plan.first_dirty_offset)
        self._aborted: list[AbortedTransaction] = []
        self._transactions = CleanedTransactions(())
        self.bytes_read = 0
        self.bytes_written = 0
        by_base = {fact.base_offset: fact for fact in facts}
        segments = log.segments.values()
        # As the round left them: what else is missing, others have taken.
        self._closed = segments[:-1]
        # Not above: an end that is not flushed yet would be taken for a hole, once it is lost.
        cleaned = next(one.base_offset for one in segments if one.base_offset >= plan.end_offset)
        self._holes_below = max(cleaned, log.local.holes.flushed_below)
        log.local.holes.allow(self._holes_below)
        self._sources = [
            _Source(segment, by_base[segment.base_offset])
            for segment in segments[:-1]
            if segment.base_offset in by_base and segment.base_offset < plan.end_offset
        ]
        self._transaction_paths = [
            (segment.path(TRANSACTION_INDEX_SUFFIX), segment.base_offset) for segment in segments
        ]
        self._rules = CleaningRules(
            offsets=self._map,
            now_ms=now_ms,
            delete_retention_ms=log.config.delete_retention_ms,
            forgets_deletions=forgets_deletions,
            last_batches={
                entry.producer_id: (entry.producer_epoch, entry.last_offset_below(plan.end_offset))
                for entry in log.producer_state.active()
            },
            decompressed_bytes_max=DECOMPRESSED_BYTES_MAX,
        )

    async def run(self, throttle: Throttle) -> int:
        """Compact and return the first offset that is dirty afterwards.

        Must run to its end: a step in a thread cannot be called back, so whoever wants it to stop
        makes `is_current` false instead of cancelling.
        Raises: LogChangedError; OSError; CorruptionError for a log that cannot be compacted.
        """
        try:
            return await self._run(throttle)
        except FileNotFoundError:
            if self._is_untouched() and self._log.segments.values()[: len(self._closed)] == (
                self._closed
            ):
                raise
            # The partition was deleted, or retention has taken segments: their files were renamed.
            raise LogChangedError(self._log.directory) from None
        except ParseError as error:
            raise CorruptionError(self._log.directory, error.position, error.reason) from error

    async def _run(self, throttle: Throttle) -> int:
        folder = self._disk.open_directory(self._log.directory)
        try:
            return await self._run_in(folder, throttle)
        finally:
            folder.close()

    async def _run_in(self, folder: DiskDirectory, throttle: Throttle) -> int:
        await self._disk.run(self._prepare, folder)
        await self._pump(self._map_keys(), throttle)
        # One for all outputs: a transaction may begin in one run of segments and end in the next.
        self._transactions = CleanedTransactions(self._aborted)
        end_offset = self._map.end_offset
        runs = group_segments(
            [s.facts for s in self._sources if s.facts.base_offset < end_offset],
            self._log.config.segment_bytes,
            self._log.config.segment_index_bytes,
            self._log.config.index_interval_bytes,
        )
        by_base = {source.facts.base_offset: source for source in self._sources}
        for run in runs:
            sources = [by_base[facts.base_offset] for facts in run]
            await self._compact_run(folder, sources, throttle)
        return end_offset

    async def _compact_run(
        self, folder: DiskDirectory, sources: list[_Source], throttle: Throttle
    ) -> None:
        self._check_current(sources)
        output = await self._disk.run(
            CleanedSegment,
            self._disk,
            self._log.directory,
            sources[0].facts.base_offset,
            self._now_ms,
            self._log.config.index_interval_bytes,
        )
        local = self._log.local
        try:
            await self._pump(self._rewrite(sources, output), throttle)
            self._check_current(sources)
            await self._disk.run(output.finish, folder)
            # The check is repeated after each wait: what a thread waits for, others do not.
            self._check_current(sources)
            # Whoever changes the log from here on makes it incomplete again first.
            local.complete_output(output, sources[-1].modified_ms)
            await self._disk.run(folder.sync)
            if not local.is_completed(output):
                raise LogChangedError(self._log.directory)
            self._check_current(sources)
        except BaseException:
            local.discard_output(output)
            raise
        self.bytes_written += output.segment.size_bytes
        local.replace_segments([source.segment for source in sources], output)
        self._closed = self._log.segments.values()[:-1]

    def _check_current(self, sources: Sequence[_Source]) -> None:
        """Raise if a source is no longer in the log as it was."""
        present = set(self._log.segments.values())
        is_same = self._is_untouched() and all(
            source.segment in present
            and source.segment.size_bytes == source.facts.size_bytes
            and source.segment.log_path == source.log_path
            for source in sources
        )
        if not is_same:
            raise LogChangedError(self._log.directory)

    def _is_untouched(self) -> bool:
        return (
            self._is_current()
            and not self._log.is_offline
            and self._log.generation == self._generation
        )

    async def _pump(self, work: Iterator[int], throttle: Throttle) -> None:
        """Run a generator to its end, a step at a time."""
        is_done = False
        while not is_done:
            size, is_done = await self._disk.run(_step, work)
            self.bytes_read += size
            if not self._is_untouched():
                raise LogChangedError(self._log.directory)
            await throttle(size)

    # ---------------------------------------------------------------- in the disk's threads

    def _prepare(self, folder: DiskDirectory) -> None:
        """Remove what an earlier round may have left; read the aborted transactions.

        A stale `.cleaned` file would make start-up drop a `.swap` that is complete. The holes that
        this round may make are noted before there are any.
        """
        self._log.local.holes.flush(folder, self._holes_below)
        directory = self._log.directory
        for name in self._disk.list_directory(directory):
            if name.endswith(CLEANED_FILE_SUFFIX):
                self._disk.remove(f"{directory}/{name}")
        for path, base_offset in self._transaction_paths:
            self._aborted.extend(TransactionIndex(self._disk, path, base_offset).entries())
        for source in self._sources:
            source.modified_ms = self._disk.modified_ms(source.log_path)

    def _map_keys(self) -> Iterator[int]:
        """Fill the map with the keys of the dirty part, as far as they fit."""
        offsets, end = self._map, self._plan.end_offset
        start = self._plan.first_dirty_offset
        transactions = CleanedTransactions(
            entry for entry in self._aborted if entry.last_offset >= start
        )
        for source in self._sources:
            if source.facts.end_offset <= start:
                continue
            for header, data in self._batches(source):
                if header.last_offset < start:
                    continue
                if header.last_offset >= end or offsets.is_full:
                    # What is missing before it was compacted before, or never was.
                    offsets.end_offset = max(offsets.end_offset, min(header.base_offset, end))
                    return
                self._map_batch(header, data, transactions)
                offsets.end_offset = header.last_offset + 1
                yield len(data)
            # The gap up to the next segment is covered as well.
            offsets.end_offset = max(offsets.end_offset, min(source.facts.end_offset, end))

    def _map_batch(
        self, header: BatchHeader, data: memoryview, transactions: CleanedTransactions
    ) -> None:
        if header.is_control:
            # Which kind of marker it is does not matter here: the transaction is over.
            transactions.is_marker_droppable(header, is_abort=True)
            return
        if transactions.is_aborted(header):
            return
        put = self._map.put
        for record in decode_records(data, max_decompressed_bytes=DECOMPRESSED_BYTES_MAX):
            if record.key is not None:
                put(record.key, record.offset)

    def _rewrite(self, sources: Sequence[_Source], output: CleanedSegment) -> Iterator[int]:
        """Write what stays of the sources to the output."""
        rules, transactions = self._rules, self._transactions
        pending: list[tuple[BatchHeader, Buffer]] = []
        pending_bytes = 0
        for source in sources:
            for header, data in self._batches(source):
                kept = clean_batch(header, data, rules, transactions)
                if transactions.retained:
                    output.append_aborted(transactions.retained)
                    transactions.retained.clear()
                if kept is not None:
                    new_header = header if kept is data else read_header(kept)
                    pending.append((new_header, bytes(kept)))
                    pending_bytes += len(kept)
                if pending_bytes >= WRITE_BYTES:
                    output.append(pending)
                    pending, pending_bytes = [], 0
                yield len(data)
        output.append(pending)

    def _batches(self, source: _Source) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Yield the batches of a source, their checksums verified."""
        path = source.log_path
        (file,) = source.segment.open_files(LOG_SUFFIX)
        try:
            for position, header, data in scan_batches(path, file, 0, source.facts.size_bytes):
                if not check_crc(data, 0, header):
                    raise CorruptionError(path, position, "the checksum does not match")
                yield header, data
        finally:
            file.close()


def _step(work: Iterator[int]) -> tuple[int, bool]:
    """Advance a generator by about STEP_BYTES; returns the bytes and whether it ended."""
    size = 0
    for bytes_read in work:
        size += bytes_read
        if size >= STEP_BYTES:
            return size, False
    return size, True

"""What compaction makes of one batch: kept as it is, kept in part, kept empty, or dropped.

Pure: bytes and the time in, bytes out. Not here: which batches are shown to it (`compaction`).

Source: REC-6, REC-8, REC-9; formats.md 2; KIP-534 (delete horizon). Invariants: offsets,
order and the producer's numbers of what is kept never change; a batch that keeps everything is kept
byte for byte, unless its delete horizon has to be set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas_protocol.records.compression import Compression
from barnabas_protocol.records.control import ControlType, control_type_of
from barnabas_protocol.records.record import Record, decode_records, encode_batch

if TYPE_CHECKING:
    from barnabas_broker.log.cleaner.cleaned_transactions import CleanedTransactions
    from barnabas_broker.log.cleaner.offset_map import OffsetMap
    from barnabas_protocol.records.batch import BatchHeader


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningRules:
    """What one round of compaction goes by.

    `forgets_deletions`: whether tombstones and markers go after their delete horizon. A replica
    that lacks them, and has what they delete, would have it for good, and show it once it leads.
    `last_batches`: for each active producer its epoch and the last offset of its last data batch,
    -1 if its last batch is a marker. Of what is cleaned: a new leader, or the next power cut, may
    take what is behind it.
    """

    offsets: OffsetMap
    now_ms: int
    delete_retention_ms: int
    forgets_deletions: bool
    last_batches: Mapping[int, tuple[int, int]]
    decompressed_bytes_max: int


def clean_batch(
    header: BatchHeader,
    data: memoryview,
    rules: CleaningRules,
    transactions: CleanedTransactions,
) -> bytes | memoryview | None:
    """Return what to write in place of a batch, None if nothing.

    Raises: ParseError if the batch's records cannot be read.
    """
    if header.is_control:
        return _clean_control(header, data, rules, transactions)
    is_aborted = transactions.is_aborted(header)
    if header.base_offset >= rules.offsets.end_offset:
        return data
    if header.record_count == 0:
        return data if _must_stay(header, rules) else None
    if is_aborted:
        return _empty(header) if _must_stay(header, rules) else None
    records = decode_records(data, max_decompressed_bytes=rules.decompressed_bytes_max)
    kept = [record for record in records if _is_kept(header, record, rules)]
    if not kept:
        return _empty(header) if _must_stay(header, rules) else None
    needs_horizon = not header.has_delete_horizon and any(r.value is None for r in kept)
    if len(kept) == len(records) and not needs_horizon:
        return data
    return _rebuilt(header, kept, rules)


def _clean_control(
    header: BatchHeader,
    data: memoryview,
    rules: CleaningRules,
    transactions: CleanedTransactions,
) -> bytes | memoryview | None:
    """Markers go a while after the last batch of their transaction went (REC-8)."""
    if header.record_count == 0:
        return data if _must_stay(header, rules) else None
    records = decode_records(data, max_decompressed_bytes=rules.decompressed_bytes_max)
    control_type = control_type_of(records[0])
    if control_type not in (ControlType.ABORT, ControlType.COMMIT):
        return data
    is_droppable = transactions.is_marker_droppable(
        header, is_abort=control_type == ControlType.ABORT
    )
    if not is_droppable or header.base_offset >= rules.offsets.end_offset:
        return data
    if not header.has_delete_horizon:
        return _rebuilt(header, records, rules)
    if not _may_forget(header, rules):
        return data
    return _empty(header) if _must_stay(header, rules) else None


def _is_kept(header: BatchHeader, record: Record, rules: CleaningRules) -> bool:
    if record.offset >= rules.offsets.end_offset:
        return True
    key = record.key
    if key is None or not rules.offsets.is_newest(key, record.offset):
        # A record without a key can be here only if the topic was not always compacted; nothing
        # could ever supersede it, so it would stay for good.
        return False
    if record.value is not None:
        return True
    return not _may_forget(header, rules)


def _may_forget(header: BatchHeader, rules: CleaningRules) -> bool:
    """Return whether tombstones, or a marker, were kept for long enough and by all (REC-8)."""
    return (
        rules.forgets_deletions
        and header.has_delete_horizon
        and rules.now_ms >= header.base_timestamp
    )


def _must_stay(header: BatchHeader, rules: CleaningRules) -> bool:
    """Return whether the batch has to stay even without records (REC-9).

    The last batch of a producer says which sequence comes next; the last batch of the round says
    where the log ends for readers that stand there.
    """
    if header.last_offset + 1 == rules.offsets.end_offset:
        return True
    last = rules.last_batches.get(header.producer_id)
    if header.producer_id < 0 or last is None:
        return False
    producer_epoch, last_offset = last
    if last_offset >= 0:
        return header.last_offset == last_offset
    return header.is_control and header.producer_epoch == producer_epoch


def _rebuilt(header: BatchHeader, records: list[Record], rules: CleaningRules) -> bytes:
    """Return the batch with these records; sets the delete horizon if something waits for it."""
    horizon_ms: int | None = None
    if header.has_delete_horizon:
        horizon_ms = header.base_timestamp
    elif header.is_control or any(record.value is None for record in records):
        horizon_ms = rules.now_ms + rules.delete_retention_ms
    return _encode(header, records, horizon_ms)


def _empty(header: BatchHeader) -> bytes:
    """Return the batch without records, which keeps its offsets and its producer's numbers."""
    return _encode(header, [], None)


def _encode(header: BatchHeader, records: list[Record], horizon_ms: int | None) -> bytes:
    keeps_max_timestamp = header.is_log_append_time or not records
    return encode_batch(
        records,
        base_offset=header.base_offset,
        # Of nothing: clients expect a compressed stream where the header says so, and fail without.
        compression=header.compression if records else Compression.NONE,
        timestamp_type=int(header.is_log_append_time),
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        leader_epoch=header.leader_epoch,
        is_transactional=header.is_transactional,
        is_control=header.is_control,
        delete_horizon_ms=horizon_ms,
        last_offset_delta=header.last_offset_delta,
        max_timestamp=header.max_timestamp if keeps_max_timestamp else None,
    )

"""Tells the timestamp of the record at an offset, from bytes that begin with its batch.

Pure. For lag in seconds: how old the oldest record is that a group has not read. Headers are enough
where the offset is a batch's first; within a batch its records are gone through.

Source: KIP-32 (timestamps of records), KIP-534 (what the base timestamp is in a compacted batch).
"""

from __future__ import annotations

from barnabas_protocol.errors import ParseError
from barnabas_protocol.records.batch import HEADER_BYTES, BatchHeader, Buffer, read_header
from barnabas_protocol.records.record_scan import scan_records


def timestamp_at(data: Buffer, offset: int) -> int | None:
    """The timestamp in milliseconds of the first record at or after `offset`.

    None where the bytes do not tell: they end before it, or it has no timestamp. The last batch may
    be cut off. Markers of transactions count as records.
    """
    position = 0
    while position + HEADER_BYTES <= len(data):
        try:
            header = read_header(data, position)
            if header.last_offset >= offset:
                found = _within(data, position, header, offset)
                if found is not None:
                    return found if found >= 0 else None
        except ParseError:
            return None
        position += header.size_bytes
    return None


def _within(data: Buffer, position: int, header: BatchHeader, offset: int) -> int | None:
    """The same for one batch; None, too, where compaction has left no such record in it."""
    if not header.record_count:
        return None
    if header.is_log_append_time:
        return header.max_timestamp
    is_base_known = not header.has_delete_horizon
    if is_base_known and (
        header.base_offset >= offset or header.base_timestamp == header.max_timestamp
    ):
        return header.base_timestamp
    if position + header.size_bytes > len(data):
        return None
    records = scan_records(data, position)
    return next((timestamp for at, timestamp, _ in records if at >= offset), None)

"""The result of an append to a partition log."""

from __future__ import annotations


class AppendInfo:
    """What became of an append. Offsets are inclusive; those of the original for a duplicate."""

    __slots__ = (
        "first_offset",
        "is_duplicate",
        "last_offset",
        "log_append_time_ms",
        "log_start_offset",
        "max_timestamp",
        "record_count",
        "size_bytes",
    )

    def __init__(
        self,
        first_offset: int,
        last_offset: int,
        log_append_time_ms: int,
        log_start_offset: int,
        is_duplicate: bool,
        size_bytes: int,
        record_count: int,
        max_timestamp: int,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.is_duplicate = is_duplicate
        self.size_bytes = size_bytes
        self.record_count = record_count
        self.max_timestamp = max_timestamp

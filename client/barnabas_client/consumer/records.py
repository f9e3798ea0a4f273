"""What a consumer returns: single records and whole batches.

Not here: how they are decoded (the readers of `barnabas_protocol.records`), the columnar form
(`columns.py`).

Invariants: a `ConsumerRecord` is a plain tuple, because one is created per record; a
`FetchedBatch` is never a control batch nor part of an aborted transaction under `read_committed`,
and its checksum was verified unless `check_crcs` is off.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from barnabas_protocol.records.batch import BatchHeader, Buffer
from barnabas_protocol.records.record import Header, Record, decode_records

CREATE_TIME: Final = 0
LOG_APPEND_TIME: Final = 1


class ConsumerRecord(NamedTuple):
    """One record; key and value are bytes unless there are deserializers.

    `timestamp_ms` counts from 1970; `timestamp_type` is CREATE_TIME or LOG_APPEND_TIME.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: Any
    value: Any
    headers: tuple[Header, ...] = ()
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedBatch:
    """One batch as it is stored, still compressed; `data` is the whole of it, header included.

    Records below `first_offset` were returned before or lie before the position: skip them.
    """

    topic: str
    partition: int
    header: BatchHeader
    data: Buffer
    first_offset: int

    @property
    def next_offset(self) -> int:
        """The offset behind this batch."""
        return self.header.last_offset + 1

    def records(self) -> list[Record]:
        """Decode the batch, from `first_offset` on; keys and values are bytes.

        Raises: ParseError if the batch is malformed.
        """
        records = decode_records(self.data)
        if self.first_offset > self.header.base_offset:
            first_offset = self.first_offset
            return [record for record in records if record.offset >= first_offset]
        return records

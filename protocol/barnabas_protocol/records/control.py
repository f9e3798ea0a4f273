"""Control batches: the markers that end a transaction in a partition.

Not here: deciding about transactions (the transaction coordinator, the producer state of the log).

Source: KIP-98, "Control messages". A control batch holds one record and consumes one offset:

    key    int16 version = 0, int16 type            (newer versions append fields: ignored)
    value  int16 version = 0, int32 coordinator epoch          (types 0 and 1)
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from barnabas_protocol.errors import ParseError
from barnabas_protocol.records.batch import HEADER_BYTES, Buffer
from barnabas_protocol.records.record import Record, encode_batch

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
# A whole record of this layout, with the lengths of record, key and value before them.
_RECORD = struct.Struct(">5shhBhiB")
_RECORD_HEAD = b"\x20\x00\x00\x00\x08"
_VALUE_LENGTH = 12


class ControlType(IntEnum):
    """The types that partitions of topics hold; 2 to 6 belong to Kafka's metadata log."""

    ABORT = 0
    COMMIT = 1


class TransactionMarker(NamedTuple):
    """What a commit or abort marker says."""

    control_type: ControlType
    coordinator_epoch: int


def encode_marker(
    control_type: ControlType,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """The control batch that ends the producer's transaction."""
    record = Record(
        base_offset, timestamp, _KEY.pack(0, control_type), _VALUE.pack(0, coordinator_epoch)
    )
    return encode_batch(
        [record],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        leader_epoch=leader_epoch,
        is_transactional=True,
        is_control=True,
    )


def plain_marker(batch: Buffer) -> TransactionMarker | None:
    """The marker in a control batch whose record has just the layout above, as nearly all have.

    None for any other: then the record is to be decoded, which takes ten times as long.
    """
    if len(batch) != HEADER_BYTES + _RECORD.size:
        return None
    head, key_version, control_type, length, version, coordinator_epoch, headers = (
        _RECORD.unpack_from(batch, HEADER_BYTES)
    )
    if (
        head != _RECORD_HEAD
        or key_version < 0
        or control_type not in (ControlType.ABORT, ControlType.COMMIT)
        or length != _VALUE_LENGTH
        or version < 0
        or headers
    ):
        return None
    return TransactionMarker(ControlType(control_type), coordinator_epoch)


def control_type_of(record: Record) -> int:
    """The type of a control record, also one that this module does not know.

    Raises: ParseError if the key is too short or of a negative version.
    """
    key = record.key or b""
    if len(key) < _KEY.size:
        raise ParseError(f"control record key of {len(key)} bytes", 0)
    version, control_type = _KEY.unpack_from(key)
    if version < 0:
        raise ParseError(f"control record key version {version}", 0)
    return int(control_type)


def read_marker(record: Record) -> TransactionMarker | None:
    """The transaction marker in a control record; None for the other types.

    Raises: ParseError if key or value is too short or of a negative version.
    """
    control_type = control_type_of(record)
    if control_type not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    value = record.value or b""
    if len(value) < _VALUE.size:
        raise ParseError(f"transaction marker of {len(value)} bytes", 0)
    version, coordinator_epoch = _VALUE.unpack_from(value)
    if version < 0:
        raise ParseError(f"transaction marker version {version}", 0)
    return TransactionMarker(ControlType(control_type), coordinator_epoch)

"""A batch of one partition: filled record by record, encoded when closed, stamped when sent.

`Producer.send` adds plain records to batches inline, for speed; `append` adds all others.
Producer id, epoch and sequence are stamped each time the batch goes out, since they may change
between two attempts (`idempotence.py`); they lie outside of the compressed body.

Not here: when a batch is full enough or old enough (`accumulator.py`).

Invariants: nothing is added after `close`; `room_bytes` never exceeds what was reserved for the
batch; the checksum is computed once per stamping.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas_client.producer.delivery import DeliveryGroup
from barnabas_client.producer.idempotence import PartitionSequences
from barnabas_client.producer.record_encoding import (
    RECORD_OVERHEAD_BYTES,
    Headers,
    headers_size,
    record_parts,
)
from barnabas_protocol.records.batch import (
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    TRANSACTIONAL_BIT,
    stamp_crc,
)
from barnabas_protocol.records.compression import compress


def record_size(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """About what a record takes in a batch, uncompressed."""
    size = RECORD_OVERHEAD_BYTES
    if key is not None:
        size += len(key)
    if value is not None:
        size += len(value)
    return size + headers_size(headers) if headers else size


class ProducerBatch(DeliveryGroup):
    """Records for one partition that are written in one piece."""

    __slots__ = (
        "attempts",
        "created_ms",
        "headers",
        "is_closed",
        "is_in_doubt",
        "is_keyed",
        "is_on_wire",
        "is_plain",
        "keys",
        "order",
        "producer_epoch",
        "producer_id",
        "record_count",
        "reserved_bytes",
        "retry_at_ms",
        "room_bytes",
        "sequence",
        "sequences",
        "values",
        "wire",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        *,
        room_bytes: int,
        reserved_bytes: int,
        created_ms: int,
        order: tuple[int, ...] = (0,),
    ) -> None:
        super().__init__(topic, partition)
        # Rises from batch to batch; the parts of a split batch are (its order, part).
        self.order = order
        self.room_bytes = room_bytes
        self.reserved_bytes = reserved_bytes
        self.created_ms = created_ms
        self.is_closed = False
        self.is_on_wire = False
        # Whether an attempt may have put the records into the log; nothing but an acknowledgement
        # ends the doubt.
        self.is_in_doubt = False
        # The partition's sequences that the batch was numbered by.
        self.sequences: PartitionSequences | None = None
        # Only values so far, or only keys and values, and none of them null: what `send` appends
        # to inline. An empty batch is plain.
        self.is_plain = True
        self.is_keyed = False
        self.keys: list[bytes | None] | None = None
        self.values: list[bytes | None] = []
        self.headers: list[Headers] | None = None
        self.record_count = 0
        self.wire: bytearray | None = None
        self.attempts = 0
        self.retry_at_ms = 0
        self.producer_id = -1
        self.producer_epoch = -1
        self.sequence = -1

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        timestamp_ms: int,
        size: int,
    ) -> int:
        """Add a record of any kind; return its position in the batch."""
        position = len(self.values)
        if key is not None and self.is_plain and position == 0:
            self.is_plain, self.is_keyed = False, True
            self.keys = []
        is_bare = value is not None and not headers
        if self.is_keyed and is_bare and key is not None:
            assert self.keys is not None
            self.keys.append(key)
        elif not (self.is_plain and is_bare and key is None):
            self._mix(key, headers)
        self.values.append(value)
        self.timestamps.append(timestamp_ms)
        self.room_bytes -= size
        return position

    def extend(
        self,
        keys: Sequence[bytes] | None,
        values: Sequence[bytes],
        timestamps_ms: Sequence[int],
        size: int,
    ) -> None:
        """Add plain records, keyed if the batch is keyed; `size` is what they take together."""
        if keys is not None:
            assert self.keys is not None
            self.keys += keys
        self.values += values
        self.timestamps += timestamps_ms
        self.room_bytes -= size

    def _mix(self, key: bytes | None, headers: Headers) -> None:
        """Keep keys and headers of every record from now on, null or not."""
        count = len(self.values)
        self.is_plain = self.is_keyed = False
        if self.keys is None:
            self.keys = [None] * count
        if self.headers is None:
            self.headers = [()] * count
        self.keys.append(key)
        self.headers.append(headers)

    def close(self, codec: int, level: int | None) -> float:
        """Encode the records; return the compression ratio, 1 without compression."""
        assert not self.is_closed
        self.is_closed = True
        self.record_count = len(self.values)
        plain = record_parts(
            self.keys, self.values, self.headers, self.timestamps, front_bytes=HEADER_BYTES
        )
        self._keep_sizes()
        plain_bytes = len(plain) - HEADER_BYTES
        wire = plain
        if codec:
            packed = compress(codec, memoryview(plain)[HEADER_BYTES:], level)
            wire = bytearray(HEADER_BYTES)
            wire += packed
        self.wire = wire
        first = self.timestamps[0]
        HEADER.pack_into(
            wire,
            0,
            0,
            len(wire) - LOG_OVERHEAD_BYTES,
            -1,
            MAGIC,
            0,
            codec,
            self.record_count - 1,
            first,
            max(self.timestamps),
            -1,
            -1,
            -1,
            self.record_count,
        )
        return (len(wire) - HEADER_BYTES) / plain_bytes

    def _keep_sizes(self) -> None:
        """Drop keys and values, which are encoded now, but keep the sizes that metadata have."""
        if self.headers is None:
            self.value_sizes = list(map(len, self.values))  # type: ignore[arg-type]
        else:
            self.value_sizes = [-1 if value is None else len(value) for value in self.values]
        if self.keys is not None:
            self.key_sizes = [-1 if key is None else len(key) for key in self.keys]
        self.values = []
        self.keys = self.headers = None

    def stamp(self, *, is_transactional: bool) -> bytearray:
        """The bytes to send, with the producer's id, epoch and sequence as they are now."""
        wire = self.wire
        assert wire is not None
        fields = list(HEADER.unpack_from(wire))
        if is_transactional:
            fields[5] |= TRANSACTIONAL_BIT
        fields[9:12] = self.producer_id, self.producer_epoch, self.sequence
        HEADER.pack_into(wire, 0, *fields)
        stamp_crc(wire, 0)
        return wire

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record, wrapped past 2^31 - 1."""
        return (self.sequence + self.record_count - 1) & 0x7FFFFFFF

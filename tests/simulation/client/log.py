"""The log of one partition, with what Kafka's brokers know of producers and transactions."""

from collections import deque
from dataclasses import dataclass, field

from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import Uuid
from barnabas_protocol.records.batch import BatchHeader, read_header, stamp
from barnabas_protocol.records.control import ControlType, encode_marker
from barnabas_protocol.records.record import decode_records

BATCHES_REMEMBERED = 5
TRANSACTIONAL = 0x10
Refusal = tuple[ErrorCode, int]


@dataclass
class Written:
    """What a log knows of one producer: its epoch and the last batches."""

    epoch: int
    batches: deque[tuple[int, int, int]] = field(
        default_factory=lambda: deque(maxlen=BATCHES_REMEMBERED)
    )


@dataclass(frozen=True)
class Stored:
    """A batch in the log."""

    base_offset: int
    next_offset: int
    data: bytes
    producer_id: int
    is_transactional: bool
    is_control: bool

    def values(self) -> list[tuple[int, bytes]]:
        """Offsets and values; none of a marker."""
        if self.is_control:
            return []
        return [(record.offset, record.value or b"") for record in decode_records(self.data)]


class Log:
    """One partition of one topic id."""

    def __init__(self, topic: str, topic_id: Uuid, number: int) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.number = number
        self.leader_id = 0
        self.leader_epoch = 0
        self.end_offset = 0
        self.batches: list[Stored] = []
        self.producers: dict[int, Written] = {}
        self.open_since: dict[int, int] = {}
        self.aborted: list[tuple[int, int, int]] = []

    @property
    def stable_offset(self) -> int:
        """Below it nothing is undecided."""
        return min(self.open_since.values(), default=self.end_offset)

    def append(self, data: bytes) -> Refusal:
        """Append one batch as a leader does: the code, and the offset of the first record."""
        header = read_header(data)
        if header.producer_id >= 0:
            code, offset = self._check(header)
            if code is not ErrorCode.NONE or offset >= 0:
                return code, offset
        return ErrorCode.NONE, self._store(data, header)

    def _check(self, header: BatchHeader) -> Refusal:
        """Whether the batch may follow; the offset of the one that it repeats, else -1."""
        known = self.producers.get(header.producer_id)
        last = header.base_sequence + header.last_offset_delta
        if known is None:
            return ErrorCode.NONE, -1
        if header.producer_epoch < known.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH, -1
        if header.producer_epoch > known.epoch:
            fits = header.base_sequence == 0
            return (ErrorCode.NONE if fits else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), -1
        for first, end, offset in known.batches:
            if (first, end) == (header.base_sequence, last):
                return ErrorCode.NONE, offset
        expected = known.batches[-1][1] + 1 if known.batches else 0
        if header.base_sequence == expected:
            return ErrorCode.NONE, -1
        is_old = header.base_sequence < expected
        code = (
            ErrorCode.DUPLICATE_SEQUENCE_NUMBER
            if is_old and known.batches and last < known.batches[0][0]
            else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        )
        return code, -1

    def _store(self, data: bytes, header: BatchHeader) -> int:
        offset = self.end_offset
        stamped = bytearray(data)
        stamp(stamped, 0, offset, self.leader_epoch)
        self.end_offset = offset + header.last_offset_delta + 1
        is_transactional = bool(header.attributes & TRANSACTIONAL)
        self.batches.append(
            Stored(
                offset,
                self.end_offset,
                bytes(stamped),
                header.producer_id,
                is_transactional,
                is_control=False,
            )
        )
        if header.producer_id >= 0:
            known = self.producers.get(header.producer_id)
            if known is None or known.epoch != header.producer_epoch:
                known = self.producers[header.producer_id] = Written(header.producer_epoch)
            known.batches.append(
                (header.base_sequence, header.base_sequence + header.last_offset_delta, offset)
            )
        if is_transactional:
            self.open_since.setdefault(header.producer_id, offset)
        return offset

    def end_transaction(
        self, producer_id: int, epoch: int, now_ms: int, *, is_committed: bool
    ) -> None:
        """Append the marker of a transaction."""
        offset = self.end_offset
        data = encode_marker(
            ControlType.COMMIT if is_committed else ControlType.ABORT,
            producer_id=producer_id,
            producer_epoch=epoch,
            coordinator_epoch=0,
            timestamp=now_ms,
            base_offset=offset,
            leader_epoch=self.leader_epoch,
        )
        self.end_offset += 1
        self.batches.append(
            Stored(offset, offset + 1, data, producer_id, is_transactional=True, is_control=True)
        )
        known = self.producers.get(producer_id)
        if known is None or known.epoch < epoch:
            self.producers[producer_id] = Written(epoch)
        first = self.open_since.pop(producer_id, None)
        if first is not None and not is_committed:
            self.aborted.append((producer_id, first, offset))

    def read(self, offset: int, max_bytes: int, end: int) -> bytes:
        """Whole batches from the one that holds the offset on, one at least."""
        taken: list[bytes] = []
        size = 0
        for batch in self.batches:
            if batch.next_offset <= offset:
                continue
            if batch.base_offset >= end or (taken and size + len(batch.data) > max_bytes):
                break
            taken.append(batch.data)
            size += len(batch.data)
        return b"".join(taken)

    def aborted_between(self, offset: int, end: int) -> list[tuple[int, int]]:
        """The aborted transactions that a reader of this range has to know of."""
        return [
            (producer_id, first)
            for producer_id, first, last in self.aborted
            if first < end and last >= offset
        ]

    def values(self) -> list[tuple[int, bytes]]:
        """All that a reader of uncommitted records sees."""
        return [pair for batch in self.batches for pair in batch.values()]

    def committed_values(self, end: int | None = None) -> list[tuple[int, bytes]]:
        """All that a reader of committed records sees."""
        end = self.stable_offset if end is None else min(end, self.stable_offset)
        found: list[tuple[int, bytes]] = []
        for batch in self.batches:
            if batch.base_offset >= end:
                break
            if batch.is_transactional and any(
                producer_id == batch.producer_id and first <= batch.base_offset < last
                for producer_id, first, last in self.aborted
            ):
                continue
            found += batch.values()
        return found

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """The largest epoch up to this one and the offset behind its records."""
        if epoch >= self.leader_epoch:
            return self.leader_epoch, self.end_offset
        found, end = -1, 0
        for batch in self.batches:
            header = read_header(batch.data)
            if header.leader_epoch <= epoch:
                found, end = header.leader_epoch, batch.next_offset
        return found, end

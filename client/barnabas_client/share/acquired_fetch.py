"""One partition's part of a ShareFetch response, read in portions.

Pure. A response holds whole batches around the acquired ranges: only offsets inside of these are
returned. Not here: reading batches (`consumer/completed_fetch.py`), whether the locks still hold
(`acquisition.py`).

Source: KIP-932; SHR-13, SHR-41.
Invariants: every acquired offset is returned once or settled: a control record or a hole as a gap,
a record that cannot be read or deserialized by a release, which the group's limit of deliveries
ends. Nothing but acquired offsets is returned.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from barnabas_client.consumer.completed_fetch import CompletedFetch
from barnabas_client.consumer.deserialization import RecordDeserializer
from barnabas_client.consumer.records import ConsumerRecord
from barnabas_client.errors import BarnabasError, CorruptRecordError, SerializationError
from barnabas_client.share.acquisition import Acquisition
from barnabas_client.share.records import AcknowledgedRange, AcknowledgeType, ShareRecord
from barnabas_protocol.errors import ParseError
from barnabas_protocol.messages.share_fetch import AcquiredRecords
from barnabas_protocol.records.batch import Buffer

GAP: Final = 0
# So many records at least are read at once: an iteration takes them one by one.
_READ_MIN: Final = 32
_new_tuple = tuple.__new__


class AcquiredFetch:
    """The acquired records of one partition that were not delivered yet."""

    __slots__ = (
        "_completed",
        "_deserializer",
        "_error",
        "_next_offset",
        "_ranges",
        "_read",
        "_settled",
        "acquisition",
    )

    def __init__(
        self,
        acquisition: Acquisition,
        data: Buffer,
        acquired: Sequence[AcquiredRecords],
        deserializer: RecordDeserializer,
        *,
        check_crcs: bool = True,
    ) -> None:
        """`acquired` is not empty. Raises: ParseError if its ranges do not rise."""
        _check_rising(acquired)
        self.acquisition = acquisition
        self._ranges = deque(acquired)
        # The first acquired offset that was neither read nor settled.
        self._next_offset = acquired[0].first_offset
        self._completed = CompletedFetch(
            acquisition.topic_partition, data, self._next_offset, check_crcs=check_crcs
        )
        self._deserializer = deserializer
        # Records that were read and not returned, with their delivery counts.
        self._read: list[tuple[ConsumerRecord, int]] = []
        self._settled: list[AcknowledgedRange] = []
        self._error: BarnabasError | None = None

    @property
    def is_done(self) -> bool:
        """Whether neither records nor an error are left."""
        return not self._ranges and not self._read and self._error is None

    def take_settled(self) -> list[AcknowledgedRange]:
        """The offsets that were settled since the last call."""
        settled, self._settled = self._settled, []
        return settled

    def read(self, count_max: int) -> list[ShareRecord]:
        """Up to `count_max` records; none at the end.

        Raises: CorruptRecordError or SerializationError behind the last record before it, once.
        """
        records: list[ShareRecord] = []
        while len(records) < count_max and self._error is None:
            rows = self._read or self._read_acquired(max(count_max - len(records), _READ_MIN))
            if not rows:
                break
            left = count_max - len(records)
            self._read = rows[left:]
            records += self._deserialized(rows[:left])
        if not records and self._error is not None:
            error, self._error = self._error, None
            raise error
        return records

    def release_rest(self) -> list[AcknowledgedRange]:
        """Settle all that was not returned, and return all that is settled."""
        for record, _ in self._read:
            self._settle(record.offset, record.offset, AcknowledgeType.RELEASE)
        self._read = []
        self._settle_rest(AcknowledgeType.RELEASE)
        self._error = None
        return self.take_settled()

    def _deserialized(self, rows: list[tuple[ConsumerRecord, int]]) -> list[ShareRecord]:
        records: Sequence[ConsumerRecord] = [record for record, _ in rows]
        if self._deserializer.is_needed:
            records, self._error = self._deserializer.apply(records)
            if self._error is not None:
                self._error = _released(self._error)
                refused, _ = rows[len(records)]
                self._settle(refused.offset, refused.offset, AcknowledgeType.RELEASE)
                self._read = rows[len(records) + 1 :] + self._read
        return [
            _new_tuple(ShareRecord, (*record, count))
            for record, (_, count) in zip(records, rows, strict=False)
        ]

    def _read_acquired(self, count_max: int) -> list[tuple[ConsumerRecord, int]]:
        """The next records that were acquired; none at the end or before what cannot be read."""
        while self._ranges:
            try:
                records = self._completed.read_records(count_max)
            except CorruptRecordError as error:
                self._error = _released(error)
                self._settle_rest(AcknowledgeType.RELEASE)
                break
            if not records:
                self._settle_rest(GAP)
                break
            rows = [
                (record, count)
                for record in records
                if (count := self._delivery_count(record.offset)) is not None
            ]
            if rows:
                return rows
        return []

    def _delivery_count(self, offset: int) -> int | None:
        """The delivery count of an offset, None if it was not acquired; settles gaps before it."""
        ranges = self._ranges
        while ranges and ranges[0].last_offset < offset:
            self._settle(self._next_offset, ranges.popleft().last_offset, GAP)
            if ranges:
                self._next_offset = ranges[0].first_offset
        if not ranges or offset < self._next_offset:
            return None
        self._settle(self._next_offset, offset - 1, GAP)
        self._next_offset = offset + 1
        count = ranges[0].delivery_count
        if offset == ranges[0].last_offset:
            ranges.popleft()
            if ranges:
                self._next_offset = ranges[0].first_offset
        return count

    def _settle_rest(self, acknowledge_type: int) -> None:
        for one in self._ranges:
            first_offset = max(one.first_offset, self._next_offset)
            self._settle(first_offset, one.last_offset, acknowledge_type)
        self._ranges.clear()

    def _settle(self, first_offset: int, last_offset: int, acknowledge_type: int) -> None:
        if first_offset <= last_offset:
            self._settled.append(AcknowledgedRange(first_offset, last_offset, acknowledge_type))


def _check_rising(acquired: Sequence[AcquiredRecords]) -> None:
    end_offset = 0
    for one in acquired:
        if not end_offset <= one.first_offset <= one.last_offset:
            raise ParseError(f"acquired ranges do not rise at {one.first_offset}", 0)
        end_offset = one.last_offset + 1


def _released(error: CorruptRecordError | SerializationError) -> BarnabasError:
    """The error in words that fit: there is nothing to seek in a share group."""
    text = error.message.partition(". Seek ")[0]
    other = type(error)(f"{text}. It was released, for another attempt", error.code)
    other.position = error.position
    other.__cause__ = error.__cause__
    return other

"""The records that were delivered and not acknowledged.

Pure. Source: SHR-40. Invariants: a record is acknowledged once, except that a renewal leaves it
open; records of a partition that was acquired twice are those of the later acquisition.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas_client.share.acquisition import Acquisition
from barnabas_client.share.pending_acknowledgements import merged
from barnabas_client.share.records import AcknowledgedRange, AcknowledgeType, ShareRecord

_Place = tuple[str, int, int]


class OpenRecords:
    """Topic, partition and offset of each open record, with what acquired it."""

    def __init__(self) -> None:
        self._acquisitions: dict[_Place, Acquisition] = {}

    def __len__(self) -> int:
        """How many there are."""
        return len(self._acquisitions)

    def deliver(self, acquisition: Acquisition, records: Iterable[ShareRecord]) -> None:
        """The program gets these records."""
        for record in records:
            self._acquisitions[record.topic, record.partition, record.offset] = acquisition

    def acknowledge(
        self, topic: str, partition: int, offset: int, kind: AcknowledgeType
    ) -> tuple[Acquisition, AcknowledgedRange] | None:
        """What is to be sent for a record; None if it is not open."""
        place = (topic, partition, offset)
        acquisition = self._acquisitions.get(place)
        if acquisition is None:
            return None
        if kind is not AcknowledgeType.RENEW:
            del self._acquisitions[place]
        return acquisition, AcknowledgedRange(offset, offset, kind)

    def acknowledge_all(
        self, kind: AcknowledgeType
    ) -> dict[Acquisition, tuple[AcknowledgedRange, ...]]:
        """Acknowledge every open record alike: the ranges of each acquisition."""
        acquisitions, self._acquisitions = self._acquisitions, {}
        offsets: dict[Acquisition, list[int]] = {}
        for (_, _, offset), acquisition in acquisitions.items():
            offsets.setdefault(acquisition, []).append(offset)
        return {
            acquisition: merged(AcknowledgedRange(offset, offset, kind) for offset in some)
            for acquisition, some in offsets.items()
        }

    def renew(self, acquisition: Acquisition, ranges: Iterable[AcknowledgedRange]) -> None:
        """The locks of the renewed ranges are those of this acquisition from now on."""
        topic, partition = acquisition.topic_partition
        for first_offset, last_offset, kind in ranges:
            if kind != AcknowledgeType.RENEW:
                continue
            for offset in range(first_offset, last_offset + 1):
                if (topic, partition, offset) in self._acquisitions:
                    self._acquisitions[topic, partition, offset] = acquisition

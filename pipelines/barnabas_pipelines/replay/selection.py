"""Which records of an archive are chosen: by time, partition and offset. Pure.

Moments are ISO 8601, in UTC unless they say otherwise; a date alone is its midnight. Partitions are
written `0,2,5-7`; offsets `0:100-199,1:50-` (first and last, both included; open to the right).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from barnabas_pipelines.tables.local import FileFacts

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECONDS_DIGITS_MIN: Final = 12
_PART: Final = re.compile(r"\s*(\d+)(?:\s*-\s*(\d+))?\s*")
_OFFSETS: Final = re.compile(r"\s*(\d+)\s*:\s*(\d+)\s*-\s*(\d*)\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Records of one topic.

    Times are milliseconds, from inclusive to exclusive; offsets by partition, ends exclusive or
    None. With offsets, partitions that have none are left out.
    """

    topic: str
    from_ms: int | None = None
    to_ms: int | None = None
    partitions: frozenset[int] | None = None
    offsets: Mapping[int, tuple[int, int | None]] = field(default_factory=dict)

    def may_have(self, file: FileFacts) -> bool:
        """Whether a file of an archive can hold any such record, judging by its topic and times."""
        if file.topic != self.topic:
            return False
        # A file without statistics of its times may have any.
        if self.from_ms is not None and file.last_ms is not None and file.last_ms < self.from_ms:
            return False
        return self.to_ms is None or file.first_ms is None or file.first_ms < self.to_ms

    def text(self) -> str:
        """The choice in words, for a plan."""
        parts = [f"topic {self.topic}"]
        if self.from_ms is not None:
            parts.append(f"from {moment_text(self.from_ms)}")
        if self.to_ms is not None:
            parts.append(f"to before {moment_text(self.to_ms)}")
        if self.partitions is not None:
            parts.append(f"partitions {', '.join(map(str, sorted(self.partitions)))}")
        for partition, (first, end) in sorted(self.offsets.items()):
            last = "the end" if end is None else f"{end - 1:,}"
            parts.append(f"offsets {first:,} to {last} of partition {partition}")
        return "; ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """The choice as plain data, to compare with another."""
        return {
            "topic": self.topic,
            "from_ms": self.from_ms,
            "to_ms": self.to_ms,
            "partitions": None if self.partitions is None else sorted(self.partitions),
            "offsets": {str(one): list(found) for one, found in sorted(self.offsets.items())},
        }


def parse_moment_ms(text: str) -> int:
    """A moment in milliseconds since 1970. Raises: ValueError saying how they are written."""
    written = text.strip()
    if written.isdecimal() and len(written) >= _MILLISECONDS_DIGITS_MIN:
        return int(written)
    try:
        moment = datetime.fromisoformat(written)
    except ValueError:
        raise ValueError(
            "it must be a moment such as 2026-11-22, 2026-11-22T10:30:00Z or milliseconds"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def moment_text(moment_ms: int) -> str:
    """A moment as ISO 8601 in UTC; the number where no calendar has it."""
    try:
        moment = _EPOCH + timedelta(milliseconds=moment_ms)
    except OverflowError:
        return f"{moment_ms} ms"
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment_ms % 1000:03d}Z"


def parse_partitions(text: str) -> frozenset[int]:
    """The partitions of `0,2,5-7`. Raises: ValueError."""
    found: set[int] = set()
    for part in text.split(","):
        match = _PART.fullmatch(part)
        first = int(match[1]) if match is not None else 0
        last = int(match[2] or first) if match is not None else -1
        if last < first:
            raise ValueError("it must be partitions such as 0,2,5-7")
        found.update(range(first, last + 1))
    return frozenset(found)


def parse_offsets(text: str) -> dict[int, tuple[int, int | None]]:
    """The offsets of `0:100-199,1:50-`, ends exclusive. Raises: ValueError."""
    found: dict[int, tuple[int, int | None]] = {}
    for part in text.split(","):
        match = _OFFSETS.fullmatch(part)
        last = int(match[3]) if match is not None and match[3] else None
        if match is None or int(match[1]) in found or (last is not None and last < int(match[2])):
            raise ValueError(
                "it must be offsets such as 0:100-199,1:50- (partition, first and last; once each)"
            )
        found[int(match[1])] = (int(match[2]), None if last is None else last + 1)
    return found

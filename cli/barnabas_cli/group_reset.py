"""Resetting a group's offsets: from what is wanted to a table of old and new. Pure.

Not here: asking the cluster and committing (`group_offsets_reset.py`).

Invariants: a new offset is never outside of what the partition holds; a file that was written by
`undo_text` and read by `parse_offsets` brings back exactly what was there before, also "nothing".
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from barnabas_protocol.ids import TopicPartition

_NOTHING = "-"
_FILE_COLUMNS = 3


class Target(Enum):
    """Where to go; those of a file or a time are looked up before."""

    EARLIEST = "earliest"
    LATEST = "latest"
    CURRENT = "current"
    OFFSET = "offset"
    SHIFT = "shift"
    LOOKED_UP = "looked up"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    """A partition: what is committed (None: nothing), and which offsets it holds.

    `looked_up` is the offset for a time or from a file; None goes to the end, or with
    `is_removed` to "nothing committed".
    """

    place: TopicPartition
    committed: int | None
    start_offset: int
    end_offset: int
    looked_up: int | None = None
    is_removed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One row of the table; `new` is None where the committed offset is to be removed."""

    place: TopicPartition
    old: int | None
    new: int | None
    note: str = ""

    @property
    def is_change(self) -> bool:
        """Whether there is anything to do."""
        return self.old != self.new

    def as_data(self) -> dict[str, Any]:
        """The row as plain data."""
        difference = None if self.old is None or self.new is None else self.new - self.old
        return {
            "topic": self.place.topic,
            "partition": self.place.partition,
            "old": self.old,
            "new": self.new,
            "change": difference,
            "note": self.note,
        }


def plan_reset(facts: Sequence[PartitionFacts], target: Target, number: int = 0) -> list[Change]:
    """The rows of all partitions, by topic and partition.

    `number` is the offset of Target.OFFSET or the distance of Target.SHIFT.
    """
    return [_change(fact, target, number) for fact in sorted(facts, key=lambda fact: fact.place)]


def _change(fact: PartitionFacts, target: Target, number: int) -> Change:
    if target is Target.LOOKED_UP and fact.is_removed:
        return Change(place=fact.place, old=fact.committed, new=None, note="nothing committed")
    if target is Target.SHIFT and fact.committed is None:
        return Change(
            place=fact.place, old=None, new=None, note="nothing committed: nothing to shift"
        )
    wanted = _wanted(fact, target, number)
    new = min(max(wanted, fact.start_offset), fact.end_offset)
    note = ""
    if new > wanted:
        note = f"{wanted} is no longer there: the first record"
    elif new < wanted:
        note = f"{wanted} is not there yet: the end"
    return Change(place=fact.place, old=fact.committed, new=new, note=note)


def _wanted(fact: PartitionFacts, target: Target, number: int) -> int:
    match target:
        case Target.EARLIEST:
            return fact.start_offset
        case Target.LATEST:
            return fact.end_offset
        case Target.CURRENT:
            return fact.end_offset if fact.committed is None else fact.committed
        case Target.OFFSET:
            return number
        case Target.SHIFT:
            return (fact.committed or 0) + number
        case Target.LOOKED_UP:
            return fact.end_offset if fact.looked_up is None else fact.looked_up


def undo_text(changes: Iterable[Change]) -> str:
    """A file that brings back the old offsets: `topic,partition,offset`, `-` for none."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for change in changes:
        if change.is_change:
            old = _NOTHING if change.old is None else change.old
            writer.writerow([change.place.topic, change.place.partition, old])
    return out.getvalue()


def parse_offsets(text: str) -> dict[TopicPartition, int | None]:
    """The offsets in a file of `undo_text` or of Kafka's own tools; None where none shall be.

    Raises: ValueError with the number of the line that cannot be read.
    """
    offsets: dict[TopicPartition, int | None] = {}
    for number, row in enumerate(csv.reader(io.StringIO(text)), start=1):
        fields = [field.strip() for field in row]
        if not any(fields) or fields[0].startswith("#"):
            continue
        if len(fields) != _FILE_COLUMNS or not fields[1].isdecimal():
            raise ValueError(f"line {number} is not topic,partition,offset: {','.join(row)}")
        if fields[2] != _NOTHING and not fields[2].isdecimal():
            raise ValueError(f"line {number} has no offset: {','.join(row)}")
        place = TopicPartition(fields[0], int(fields[1]))
        offsets[place] = None if fields[2] == _NOTHING else int(fields[2])
    return offsets


def parse_scopes(texts: Sequence[str]) -> dict[str, tuple[int, ...] | None]:
    """Topics and, behind a colon, the partitions meant: `orders` or `orders:0,2`; None: all.

    Raises: ValueError.
    """
    scopes: dict[str, tuple[int, ...] | None] = {}
    for text in texts:
        topic, colon, numbers = text.partition(":")
        if not topic or (colon and not re.fullmatch(r"\d+(,\d+)*", numbers)):
            raise ValueError(f"'{text}' is not TOPIC or TOPIC:PARTITION,PARTITION")
        scopes[topic] = tuple(map(int, numbers.split(","))) if colon else None
    return scopes


def undo_file_name(group_id: str, moment: str) -> str:
    """A name for the undo file that any file system takes."""
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", group_id)[:100]
    return f"undo-{safe}-{moment}.csv"


def in_scope(
    scopes: Mapping[str, tuple[int, ...] | None], places: Iterable[TopicPartition]
) -> list[TopicPartition]:
    """Those places that the scopes name; all where there are no scopes."""
    if not scopes:
        return list(places)
    found = []
    for place in places:
        if place.topic in scopes:
            numbers = scopes[place.topic]
            if numbers is None or place.partition in numbers:
                found.append(place)
    return found

"""Resetting a group's offsets: from what is wanted to a table of old and new. Pure.

Not here: asking the cluster (`offsets_reset.py`), committing (`group_offset_kinds.py`).

Invariants: a new offset is never outside of what the partition holds; a file that was written by
`undo_text` and read by `parse_offsets` brings back exactly what was there before, also "nothing",
leader epochs and metadata.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from barnabas_client.cluster.offset_ranges import OffsetRange, ResetTarget, reset_offset
from barnabas_client.cluster.offsets import OffsetAndMetadata
from barnabas_protocol.ids import TopicPartition

_NOTHING = "-"
_FILE_COLUMNS = 3
_FULL_FILE_COLUMNS = 5
#: No leader epoch, no metadata: the line is one of Kafka's own tools.
_PLAIN = OffsetAndMetadata(0)[1:]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    """A partition: which offset is committed (None: none), and which offsets it holds.

    `looked_up` is the offset for a time or from a file; None goes to the end, or with
    `is_removed` to "nothing committed".
    """

    topic_partition: TopicPartition
    committed: OffsetAndMetadata | None
    held: OffsetRange
    looked_up: int | None = None
    is_removed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One row of the table; `new` is None where the committed offset is to be removed.

    `committed` is all that was committed with `old`, where it is known.
    """

    topic_partition: TopicPartition
    old: int | None
    new: int | None
    note: str = ""
    committed: OffsetAndMetadata | None = None

    @property
    def is_change(self) -> bool:
        """Whether there is anything to do."""
        return self.old != self.new

    def as_data(self) -> dict[str, Any]:
        """The row as plain data."""
        difference = None if self.old is None or self.new is None else self.new - self.old
        return {
            "topic": self.topic_partition.topic,
            "partition": self.topic_partition.partition,
            "old": self.old,
            "new": self.new,
            "change": difference,
            "note": self.note,
        }


def plan_reset(
    facts: Sequence[PartitionFacts], target: ResetTarget, number: int = 0
) -> list[Change]:
    """The rows of all partitions, by topic and partition.

    `number` is the offset of ResetTarget.OFFSET or the distance of ResetTarget.SHIFT_BY.
    """
    return [
        _change(fact, target, number)
        for fact in sorted(facts, key=lambda fact: fact.topic_partition)
    ]


def _change(fact: PartitionFacts, target: ResetTarget, number: int) -> Change:
    old = None if fact.committed is None else fact.committed.offset

    def change(new: int | None, note: str) -> Change:
        place, committed = fact.topic_partition, fact.committed
        return Change(topic_partition=place, old=old, new=new, note=note, committed=committed)

    if target is ResetTarget.LOOKED_UP and fact.is_removed:
        return change(None, "nothing committed")
    if target is ResetTarget.SHIFT_BY and old is None:
        return change(None, "nothing committed: nothing to shift")
    value = fact.looked_up if target is ResetTarget.LOOKED_UP else number
    new, wanted = reset_offset(target, fact.held, committed=old, value=value)
    note = ""
    if new > wanted:
        note = f"{wanted} is no longer there: the first record"
    elif new < wanted:
        note = f"{wanted} is not there yet: the end"
    return change(new, note)


def undo_text(changes: Iterable[Change], *, offsets_only: bool = False) -> str:
    """A file that brings back the old offsets: `topic,partition,offset`, `-` for none.

    A leader epoch and metadata that were committed follow, the metadata as a JSON string: so it is
    one line, and keeps its blanks. `offsets_only` leaves them out.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for change in changes:
        if change.is_change:
            old = _NOTHING if change.old is None else change.old
            row = [change.topic_partition.topic, change.topic_partition.partition, old]
            if not offsets_only and change.committed is not None and change.committed[1:] != _PLAIN:
                row += [change.committed.leader_epoch, json.dumps(change.committed.metadata)]
            writer.writerow(row)
    return out.getvalue()


def parse_offsets(text: str) -> dict[TopicPartition, OffsetAndMetadata | None]:
    """What a file of `undo_text` or of Kafka's own tools commits; None where nothing shall be.

    Raises: ValueError with the number of the line that cannot be read.
    """
    offsets: dict[TopicPartition, OffsetAndMetadata | None] = {}
    for number, row in enumerate(csv.reader(io.StringIO(text)), start=1):
        fields = [field.strip() for field in row]
        if not any(fields) or fields[0].startswith("#"):
            continue
        columns = len(fields)
        if columns not in (_FILE_COLUMNS, _FULL_FILE_COLUMNS) or not fields[1].isdecimal():
            raise ValueError(f"line {number} is not topic,partition,offset: {','.join(row)}")
        if fields[2] != _NOTHING and not fields[2].isdecimal():
            raise ValueError(f"line {number} has no offset: {','.join(row)}")
        place = TopicPartition(fields[0], int(fields[1]))
        try:
            details = _details(*fields[_FILE_COLUMNS:])
        except ValueError:
            text = ",".join(row)
            raise ValueError(f"line {number} has no leader epoch and metadata: {text}") from None
        offset = fields[2]
        offsets[place] = None if offset == _NOTHING else OffsetAndMetadata(int(offset), *details)
    return offsets


def _details(leader_epoch: str = "-1", metadata: str = '""') -> tuple[int, str]:
    """The last two columns. Raises: ValueError."""
    text = json.loads(metadata)
    if not isinstance(text, str) or int(leader_epoch) < -1:
        raise ValueError(metadata)
    return int(leader_epoch), text


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

"""What a snapshot's table says of itself beside how far it reaches: as facts of its marks. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from barnabas_pipelines.tables.marks import Mark, TableChangedError, TopicReach
from barnabas_pipelines.tables.table import TableState

KIND: Final = "snapshot"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFacts:
    """Up to where the table has its topic, and since when; how its columns are made of bytes.

    Everything below `next_offsets` is in it; nothing was deleted without a trace before
    `complete_at_ms`.
    """

    topic: str
    topic_id: str | None
    next_offsets: Mapping[int, int]
    complete_at_ms: int
    has_headers: bool
    decoding: str

    def mark(self, sequence: int, attempt: str) -> Mark:
        """The mark of a commit that makes this true."""
        reach = TopicReach(
            name=self.topic,
            topic_id=self.topic_id,
            starts=dict.fromkeys(self.next_offsets, 0),
            ends=self.next_offsets,
        )
        facts = {
            "complete_at_ms": self.complete_at_ms,
            "has_headers": self.has_headers,
            "decoding": self.decoding,
        }
        return Mark(kind=KIND, sequence=sequence, attempt=attempt, topics=(reach,), facts=facts)


def check_kind(state: TableState) -> None:
    """Make sure that no other job made the table, which --rebuild would write over.

    Raises: TableChangedError.
    """
    if state.mark is not None and state.mark.kind != KIND:
        raise TableChangedError(f"the table is no snapshot: the job {state.mark.kind} made it")


def facts_of(state: TableState) -> SnapshotFacts | None:
    """What a snapshot says; None if there is none yet. Raises: TableChangedError."""
    mark = state.mark
    if mark is None:
        if state.sequence:
            raise TableChangedError(
                "the table's history does not tell any more how far it reaches: run with --rebuild"
            )
        return None
    (reach,) = mark.topics
    return SnapshotFacts(
        topic=reach.name,
        topic_id=reach.topic_id,
        next_offsets=reach.ends,
        complete_at_ms=mark.facts["complete_at_ms"],
        has_headers=mark.facts["has_headers"],
        decoding=mark.facts["decoding"],
    )

"""Which offsets a snapshot reads next, or why it cannot go on from its table. Pure.

The table is brought up to date with what was appended since. That is right only if all of it can
still be read: the same topic, no offset lost in between, and no tombstone. Compaction removes a
tombstone `delete.retention.ms` after it was written, at the earliest; who comes later than that
after the last run may never learn that a key was deleted.

Not here: requests to the cluster (`jobs/cluster_facts.py`), reading.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from barnabas_pipelines.errors import DataLossError, OptionsError, PipelineError
from barnabas_pipelines.tables.marks import Mark, TableChangedError, TopicReach
from barnabas_pipelines.tables.table import TableState

KIND: Final = "snapshot"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFacts:
    """Up to where the table has its topic, and since when; how its columns are made of bytes.

    Everything below `next_offsets` is in it, as the logs were in these leader epochs; nothing was
    deleted without a trace before `complete_at_ms`.
    """

    topic: str
    topic_id: str | None
    next_offsets: Mapping[int, int]
    epochs: Mapping[int, int]
    complete_at_ms: int
    has_headers: bool
    decoding: str

    def mark(self, state: TableState, attempt: str) -> Mark:
        """The mark of a commit on that state which makes this true."""
        reach = TopicReach(
            name=self.topic,
            topic_id=self.topic_id,
            starts=dict.fromkeys(self.next_offsets, 0),
            ends=self.next_offsets,
            epochs=self.epochs,
        )
        facts = {
            "complete_at_ms": self.complete_at_ms,
            "has_headers": self.has_headers,
            "decoding": self.decoding,
        }
        return Mark(
            kind=KIND,
            sequence=state.sequence + 1,
            attempt=attempt,
            topics=(reach,),
            base=state.version,
            facts=facts,
        )


def facts_of(state: TableState) -> SnapshotFacts | None:
    """What a snapshot says; None if there is none yet. Raises: TableChangedError."""
    mark = state.mark
    if mark is None:
        if state.sequence:
            raise TableChangedError(
                "the table's history does not say any more how far it reaches: run with --rebuild"
            )
        return None
    (reach,) = mark.topics
    return SnapshotFacts(
        topic=reach.name,
        topic_id=reach.topic_id,
        next_offsets=reach.ends,
        epochs=reach.epochs,
        complete_at_ms=mark.facts["complete_at_ms"],
        has_headers=mark.facts["has_headers"],
        decoding=mark.facts["decoding"],
    )


_REBUILD = "Run with --rebuild to make the table anew from what the topic holds now"


class TopicChangedError(PipelineError):
    """The topic is not the one that the table was made of."""


class TombstonesLostError(PipelineError):
    """Keys may have been deleted without leaving a trace that could still be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    """The topic when the run began; offsets by partition, ends exclusive.

    `epochs` are the leader epochs of the ends; below `epoch_ends` the logs are what they were in
    those of the last run. `tombstone_ms` is how long deletions can be read at least; None if
    compaction removes none.
    """

    name: str
    topic_id: str | None
    starts: Mapping[int, int]
    ends: Mapping[int, int]
    epochs: Mapping[int, int]
    epoch_ends: Mapping[int, int]
    seen_at_ms: int
    tombstone_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRange:
    """The offsets to read, by partition, with partitions left out that have nothing new.

    Reading must end before `deadline_ms`, if there is one. Without a base all the topic is read.
    """

    starts: Mapping[int, int]
    ends: Mapping[int, int]
    has_base: bool
    deadline_ms: int | None

    @property
    def offset_count(self) -> int:
        """How many offsets are read: no fewer than the records."""
        return sum(end - self.starts[one] for one, end in self.ends.items())


def next_range(topic: TopicState, last: SnapshotFacts | None, *, has_headers: bool) -> ReadRange:
    """What is read after the last run; without one, everything.

    Raises: TopicChangedError, DataLossError, TombstonesLostError, OptionsError.
    """
    if last is None:
        return _range(topic, topic.starts, has_base=False, since_ms=topic.seen_at_ms)
    _check_topic(topic, last)
    if last.has_headers != has_headers:
        raise OptionsError(
            f"the table has {'' if last.has_headers else 'no '}headers, and include-headers is "
            f"{str(has_headers).lower()}: set it back, or run with --rebuild"
        )
    # Partitions that were not there when the table was made began at 0.
    starts = {one: last.next_offsets.get(one, 0) for one in sorted(topic.starts)}
    for partition, wanted in starts.items():
        first, end = topic.starts[partition], topic.ends[partition]
        if first > wanted:
            raise DataLossError(
                f"topic {topic.name}, partition {partition}: the table goes on at offset {wanted}, "
                f"but the first one there is {first}; {first - wanted} offsets are gone. {_REBUILD}"
            )
        if end < wanted:
            raise DataLossError(
                f"topic {topic.name}, partition {partition}: the table goes on at offset {wanted}, "
                f"but the log ends at {end}: it has lost records that the table has. {_REBUILD}"
            )
        if (epoch_end := topic.epoch_ends.get(partition, wanted)) < wanted:
            raise DataLossError(
                f"topic {topic.name}, partition {partition}: the table goes on at offset {wanted}, "
                f"but the log has lost the records from {epoch_end} on, and has others there. "
                f"{_REBUILD}"
            )
    found = _range(topic, starts, has_base=True, since_ms=last.complete_at_ms)
    check_deadline(topic, found, topic.seen_at_ms)
    return found


def check_deadline(topic: TopicState, found: ReadRange, now_ms: int) -> None:
    """Make sure that no tombstone of the range can have been removed by now.

    Raises: TombstonesLostError.
    """
    if found.deadline_ms is None or now_ms < found.deadline_ms:
        return
    if not found.has_base:
        raise TombstonesLostError(
            f"reading topic {topic.name} took longer than its delete.retention.ms of "
            f"{topic.tombstone_ms}: deletions may have been missed. Raise delete.retention.ms, or "
            "read faster"
        )
    raise TombstonesLostError(
        f"the last run is longer ago than delete.retention.ms ({topic.tombstone_ms}) of topic "
        f"{topic.name}: keys may have been deleted and their tombstones removed since. {_REBUILD}; "
        "run more often, or raise delete.retention.ms, to avoid it"
    )


def _check_topic(topic: TopicState, last: SnapshotFacts) -> None:
    if topic.name != last.topic:
        raise TopicChangedError(
            f"the table was made of topic {last.topic}, not of {topic.name}: give it a folder of "
            "its own"
        )
    is_another = None not in (topic.topic_id, last.topic_id) and topic.topic_id != last.topic_id
    missing = sorted(set(last.next_offsets) - set(topic.ends))
    if is_another or missing:
        what = (
            f"its id was {last.topic_id} and is {topic.topic_id}"
            if is_another
            else f"partition {missing[0]} is not there any more"
        )
        raise TopicChangedError(
            f"topic {topic.name} was deleted and made again since the last run: {what}. {_REBUILD}"
        )


def _range(
    topic: TopicState, starts: Mapping[int, int], *, has_base: bool, since_ms: int
) -> ReadRange:
    busy = [one for one, end in topic.ends.items() if end > starts[one]]
    return ReadRange(
        starts={one: starts[one] for one in busy},
        ends={one: topic.ends[one] for one in busy},
        has_base=has_base,
        deadline_ms=None if topic.tombstone_ms is None else since_ms + topic.tombstone_ms,
    )

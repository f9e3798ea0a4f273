"""Offsets of many partitions at once: what a batch reads, how it is cut, and what of it is gone.

Also where the first batch of a query began, and how far a query is that has a checkpoint.

Pure. Not here: what `startingOffsets` and its sisters mean (`datasource/positions.py`), requests to
the cluster (`datasource/cluster_view.py`).

    StreamOffsets   where a stream is in every partition, as it stands in Spark's checkpoint
    OffsetRange     what one Spark task reads of one partition
    Loss            records that were to be read and are gone

A topic that was deleted and made anew under its name has another id; the offsets of one mean
nothing in the other, so ids stand beside the offsets.

Invariants: ends are exclusive; equal offsets have equal JSON, because Spark compares texts to find
out whether there is anything new.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypeVar

from barnabas_pipelines.errors import PipelineError
from barnabas_protocol.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas_pipelines.storage.file_store import FileStore

_FORM: Final = 1
_LOSSES_SHOWN: Final = 8

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets of one partition, `end` exclusive; `topic_id` is text, empty if it has none."""

    topic: str
    partition: int
    topic_id: str
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many offsets there are; compaction and transactions leave fewer records."""
        return max(0, self.end - self.start)

    def __str__(self) -> str:
        """Return the partition and the offsets."""
        return f"{self.topic}-{self.partition} offsets {self.start} to {self.end - 1}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOffsets:
    """The offset behind what was read of every partition, and the ids of their topics."""

    offsets: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """What Spark puts into the checkpoint: sorted, so that the same offsets are the same text.

        `{"form": 1, "topics": {"orders": {"id": "...", "offsets": {"0": 23}}}}`
        """
        topics: dict[str, Any] = {}
        for (topic, partition), offset in sorted(self.offsets.items()):
            entry = topics.setdefault(topic, {"id": self.topic_ids.get(topic, ""), "offsets": {}})
            entry["offsets"][str(partition)] = offset
        return {"form": _FORM, "topics": topics}

    @classmethod
    def from_json(cls, value: Any) -> StreamOffsets:
        """Read what `to_json` gave.

        Raises: PipelineError if it is something else, such as the offsets of another source.
        """
        try:
            if value["form"] != _FORM:
                raise PipelineError(
                    f"the checkpoint has offsets of form {value['form']}, which a newer version"
                    f" wrote; this one knows form {_FORM}"
                )
            offsets, ids = {}, {}
            for topic, entry in value["topics"].items():
                ids[topic] = str(entry["id"])
                for partition, offset in entry["offsets"].items():
                    offsets[TopicPartition(topic, int(partition))] = int(offset)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise PipelineError(
                'the checkpoint holds no offsets of format("barnabas"): a query that was started'
                " with another source needs a checkpoint of its own"
            ) from None
        return cls(offsets=offsets, topic_ids=ids)

    def topic_id(self, topic: str) -> str:
        """The id of the topic; empty if none is known."""
        return self.topic_ids.get(topic, "")

    def is_same_topic(self, other: StreamOffsets, topic: str) -> bool:
        """Whether both speak of the same topic; without ids, the name has to do."""
        mine, theirs = self.topic_id(topic), other.topic_id(topic)
        return not mine or not theirs or mine == theirs


@dataclass(frozen=True, slots=True, kw_only=True)
class LogView:
    """The first offset and the end of every partition that is read, at one moment."""

    starts: Mapping[TopicPartition, int]
    ends: StreamOffsets

    def has(self, partition: TopicPartition) -> bool:
        """Whether the partition exists."""
        return partition in self.starts


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Offsets that were to be read and cannot be; `wanted` is the first of them."""

    partition: TopicPartition
    wanted: int
    #: The first offset that can be read instead; None if there is none.
    first: int | None
    #: How many offsets are gone; None if nobody knows.
    count: int | None
    reason: str

    def __str__(self) -> str:
        """Return one clause of an error."""
        count = "an unknown number of records" if self.count is None else f"{self.count} records"
        there = "nothing is there" if self.first is None else f"the first there is {self.first}"
        wanted = f"{self.partition}: wanted from offset {self.wanted}"
        return f"{wanted}, {there}, {count} gone ({self.reason})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPlan:
    """What a batch reads, and what it cannot any more."""

    ranges: tuple[OffsetRange, ...]
    losses: tuple[Loss, ...]


def plan_ranges(
    start: StreamOffsets, end: StreamOffsets, now: LogView, *, has_fixed_ends: bool = False
) -> ReadPlan:
    """The ranges between two offsets, without what is gone by now.

    Partitions that `start` does not know begin at offset 0. With `has_fixed_ends`, an end behind
    the log's end is a loss too; else it is left to be found out by who reads.
    """
    ranges, losses = [], []
    for partition, end_offset in sorted(end.offsets.items()):
        wanted = _begin(start, end, partition)
        if wanted >= end_offset:
            continue
        if not now.has(partition) or not end.is_same_topic(now.ends, partition.topic):
            losses.append(_gone(partition, wanted, end_offset, now.has(partition)))
            continue
        first, last = now.starts[partition], now.ends.offsets[partition]
        if first > wanted:
            losses.append(_cut_off(partition, wanted, first, end_offset))
        if last < end_offset and has_fixed_ends:
            losses.append(_missing_end(partition, max(wanted, last), last, end_offset))
        first = max(first, wanted)
        last = min(end_offset, last) if has_fixed_ends else end_offset
        if first < last:
            topic_id = end.topic_id(partition.topic)
            ranges.append(OffsetRange(*partition, topic_id, first, last))
    return ReadPlan(ranges=tuple(ranges), losses=tuple(losses))


def find_losses(known: StreamOffsets, now: LogView) -> tuple[Loss, ...]:
    """What a stream that is at `known` cannot read any more."""
    losses = []
    for partition, offset in sorted(known.offsets.items()):
        if not now.has(partition):
            losses.append(_gone(partition, offset, None, False))
        elif not known.is_same_topic(now.ends, partition.topic):
            losses.append(_gone(partition, offset, None, True))
        elif (end := now.ends.offsets[partition]) < offset:
            losses.append(_missing_end(partition, offset, end, offset))
    for partition in sorted(now.starts):
        wanted, first = _begin(known, now.ends, partition), now.starts[partition]
        if wanted < first:
            losses.append(_cut_off(partition, wanted, first, first))
    return tuple(losses)


def loss_text(losses: Sequence[Loss], *, is_fatal: bool) -> str:
    """One text about all losses; the first sentence has the sums, the last says what to do."""
    known = sum(loss.count for loss in losses if loss.count is not None)
    unknown = any(loss.count is None for loss in losses)
    count = f"at least {known}" if unknown else str(known)
    partitions = len({loss.partition for loss in losses})
    shown = "; ".join(str(loss) for loss in losses[:_LOSSES_SHOWN])
    more = len(losses) - _LOSSES_SHOWN
    rest = f"; and {more} more" if more > 0 else ""
    advice = (
        " Offsets are counted, so compaction may make it fewer records. To go on without them, set"
        " failOnDataLoss=false; to begin anew, use another checkpointLocation."
        if is_fatal
        else " Reading goes on at what is there, because failOnDataLoss is false."
    )
    return (
        f"{count} records of {partitions} partitions are gone before they were read: {shown}{rest}."
        f"{advice}"
    )


def _cut_off(partition: TopicPartition, wanted: int, first: int, end: int) -> Loss:
    return Loss(
        partition=partition,
        wanted=wanted,
        first=first,
        count=min(first, end) - wanted,
        reason="deleted by retention or by hand",
    )


def _missing_end(partition: TopicPartition, wanted: int, last: int, end: int) -> Loss:
    return Loss(
        partition=partition,
        wanted=wanted,
        first=last,
        count=end - last,
        reason=f"the log ends at {last} now, though offset {end} was there or was wanted",
    )


def _gone(partition: TopicPartition, wanted: int, end: int | None, is_there: bool) -> Loss:
    made_anew = "the topic was deleted and made anew since"
    return Loss(
        partition=partition,
        wanted=wanted,
        first=0 if is_there else None,
        count=None if end is None else end - wanted,
        reason=made_anew if is_there else "it does not exist any more",
    )


# ---- sharing and cutting -----------------------------------------------------------------------


def share(limit: int, sizes: Mapping[K, int]) -> dict[K, int]:
    """How many of each, in proportion, together no more than `limit`; none gets more than it has.

    While there is enough for it, each that has something gets at least one, so that a small
    partition does not wait until the large ones are empty.
    """
    waiting = {key: size for key, size in sizes.items() if size > 0}
    if sum(waiting.values()) <= limit:
        return {key: max(0, size) for key, size in sizes.items()}
    found = dict.fromkeys(sizes, 0)
    if limit < len(waiting):
        largest = sorted(waiting, key=lambda key: -waiting[key])[: max(0, limit)]
        return found | dict.fromkeys(largest, 1)
    # The largest remainders get what rounding down leaves over.
    total, remainders = sum(waiting.values()), {}
    for key, size in waiting.items():
        found[key], remainders[key] = divmod(size * limit, total)
    spare = limit - sum(found.values())
    for key in sorted(remainders, key=lambda key: -remainders[key])[:spare]:
        found[key] += 1
    for key in waiting:
        if not found[key]:
            found[max(found, key=lambda other: found[other])] -= 1
            found[key] = 1
    return found


def begins(start: StreamOffsets, now: LogView) -> StreamOffsets:
    """Where reading really goes on in every partition there is, what is gone left behind."""
    offsets = {
        partition: max(first, _begin(start, now.ends, partition))
        for partition, first in now.starts.items()
    }
    return StreamOffsets(offsets=offsets, topic_ids=now.ends.topic_ids)


def with_unseen(end: StreamOffsets, start: StreamOffsets, now: LogView) -> StreamOffsets:
    """The end with partitions of `start` that are not there now, where they were.

    A broker that has just started may not know them yet: should they come back, what was read of
    them would be read again from the beginning. Without an id it could be another topic's.
    """
    unseen = {
        partition: offset
        for partition, offset in start.offsets.items()
        if not now.has(partition)
        and start.topic_id(partition.topic)
        and start.is_same_topic(now.ends, partition.topic)
    }
    ids = {topic: start.topic_id(topic) for topic, _ in unseen}
    return StreamOffsets(offsets={**end.offsets, **unseen}, topic_ids={**ids, **end.topic_ids})


def backlog(start: StreamOffsets, end: StreamOffsets) -> dict[TopicPartition, int]:
    """How many offsets lie between them, by partition of `end`; none is negative."""
    return {
        partition: max(0, offset - _begin(start, end, partition))
        for partition, offset in end.offsets.items()
    }


def limit_end(start: StreamOffsets, end: StreamOffsets, limit: int) -> StreamOffsets:
    """An end no more than `limit` offsets behind `start`, shared over the partitions."""
    sizes = backlog(start, end)
    shares = share(limit, sizes)
    # An end below the beginning stays there: it is a loss, which is reported elsewhere.
    offsets = {
        partition: offset - sizes[partition] + shares[partition]
        for partition, offset in end.offsets.items()
    }
    return StreamOffsets(offsets=offsets, topic_ids=end.topic_ids)


def _begin(start: StreamOffsets, end: StreamOffsets, partition: TopicPartition) -> int:
    """Where a partition of `end` begins: at 0 if it, or its topic, is new."""
    if not start.is_same_topic(end, partition.topic):
        return 0
    return start.offsets.get(partition, 0)


def split(
    ranges: Iterable[OffsetRange],
    *,
    min_partitions: int | None = None,
    max_records: int | None = None,
) -> list[OffsetRange]:
    """Cut ranges into more: none above `max_records`, then at least `min_partitions` in all.

    There are fewer than `min_partitions` only if there are fewer offsets; pieces of one range
    differ by one offset at most.
    """
    whole = [one for one in ranges if one.size]
    counts = [1 if max_records is None else math.ceil(one.size / max_records) for one in whole]
    if min_partitions is not None and sum(counts) < min_partitions:
        shares = share(min_partitions, {index: one.size for index, one in enumerate(whole)})
        counts = [max(count, shares[index]) for index, count in enumerate(counts)]
    return [piece for one, count in zip(whole, counts, strict=True) for piece in _cut(one, count)]


def _cut(whole: OffsetRange, count: int) -> list[OffsetRange]:
    borders = [whole.start + whole.size * index // count for index in range(count + 1)]
    return [
        OffsetRange(whole.topic, whole.partition, whole.topic_id, start, end)
        for start, end in pairwise(borders)
        if start < end
    ]


_BEGUN: Final = "begun"


# ---- the first batch ---------------------------------------------------------------------------
#
# Spark's checkpoint has the end of each batch; where it began is the end of the one before. The
# first batch has none before it: when it is planned again after a restart, Spark asks the source
# once more where to begin, and what `latest` or `earliest` mean has changed by then. So the
# offsets that a query begins at say so (`begun`), and the end of its first batch repeats them;
# that end is in the checkpoint before anything of the batch is read. With nothing new the end is
# the start to the letter, because Spark compares texts.


def initial_json(start: StreamOffsets) -> dict[str, Any]:
    """Where a query begins, as Spark hands it on to the planning of the first batch."""
    offsets = start.to_json()
    return {**offsets, _BEGUN: offsets["topics"]}


def end_json(start: Mapping[str, Any], end: StreamOffsets) -> dict[str, Any]:
    """Where the batch after `start` ends, as it stands in the checkpoint."""
    offsets = end.to_json()
    if offsets["topics"] == start["topics"]:
        return dict(start)
    return {**offsets, _BEGUN: start[_BEGUN]} if _is_initial(start) else offsets


def start_of_batch(start: Mapping[str, Any], end: Mapping[str, Any]) -> StreamOffsets:
    """Where the batch begins: for the first one what its end says, not what Spark has now.

    Raises: PipelineError if that is not known.
    """
    found = StreamOffsets.from_json(start)
    begun = end.get(_BEGUN)
    if begun is not None:
        return StreamOffsets.from_json({**end, "topics": begun})
    if _is_initial(start):
        raise PipelineError(
            "the checkpoint does not say where its first batch began, and that batch was not"
            " finished: where it would begin now may be elsewhere. Give the query a new checkpoint,"
            " with startingOffsets where it is to begin"
        )
    return found


def _is_initial(start: Mapping[str, Any]) -> bool:
    """Whether nothing was read yet."""
    return start.get(_BEGUN) == start["topics"]


_VERSION: Final = "v1"
_LINES_BEFORE_SOURCES: Final = 2


# ---- how far a query is ------------------------------------------------------------------------
#
# Each finished batch's event has an end offset per source, and the checkpoint has the same in
# `offsets/N` for every batch N (`v1`, a line of metadata, a line per source), with a file
# `commits/N` when it is done. The connector's offsets are `{"orders": {"0": 23}}`, those of
# `format("barnabas")` are `StreamOffsets`; what other sources say (files, rates) is passed over.


def offsets_of_sources(end_offsets: Iterable[str | None]) -> dict[TopicPartition, int]:
    """Behind what a query has done with every partition, from the end offset of each source.

    A partition that two sources read is done as far as both are.
    """
    done: dict[TopicPartition, int] = {}
    for text in end_offsets:
        for partition, offset in _offsets(text).items():
            done[partition] = min(offset, done.get(partition, offset))
    return done


def offsets_of_checkpoint(files: FileStore) -> dict[TopicPartition, int]:
    """Behind the last finished batch; nothing if there is none, or its form is not known."""
    finished = [int(name) for name in files.names("commits") if name.isdecimal()]
    text = files.read(f"offsets/{max(finished)}") if finished else None
    lines = (text or "").splitlines()
    if not lines or lines[0] != _VERSION:
        return {}
    return offsets_of_sources(lines[_LINES_BEFORE_SOURCES:])


def _offsets(text: str | None) -> Mapping[TopicPartition, int]:
    try:
        value = json.loads(text or "")
    except ValueError:
        return {}
    if not isinstance(value, dict):
        return {}
    return _connector_offsets(value) or _own_offsets(value)


def _connector_offsets(value: Mapping[str, Any]) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for topic, partitions in value.items():
        if not isinstance(partitions, dict):
            return {}
        for number, offset in partitions.items():
            if not (number.isdecimal() and type(offset) is int and offset >= 0):
                return {}
            found[TopicPartition(topic, int(number))] = offset
    return found


def _own_offsets(value: Mapping[str, Any]) -> Mapping[TopicPartition, int]:
    try:
        return StreamOffsets.from_json(value).offsets
    except PipelineError:
        return {}

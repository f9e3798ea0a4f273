"""What a batch of an archive holds, as the file `_manifest.json` in its folder says. Pure.

    batch=17/_manifest.json
    batch=17/dt=2026-11-22/part-00000-....snappy.parquet

    {"version": 1, "number": 17, "spark_batch_id": 20, "topic_ids": {"orders": "a3f..."},
     "ranges": [{"topic": "orders", "partition": 0, "start": 100, "end": 250, "records": 150}],
     "ends": {"orders": {"0": 250, "1": 90}}, "timestamps_ms": [1700000000000, 1700000005000],
     "files": {"dt=2026-11-22/part-....parquet": 51234},
     "totals": {"batches": 18, "files": 20, "records": 12345, "bytes": 7654321}}

Invariants: `ranges` are of this batch alone, starts inclusive and ends exclusive; `ends` are of the
archive up to and with this batch: every record below them that its topic had is in the archive.
They may lie behind the last range: offsets without a record, such as ends of transactions. `totals`
are of all batches that were ever written, so that nobody has to read all manifests to tell them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

FILE_NAME: Final = "_manifest.json"
VERSION: Final = 1

#: Topic, then partition, to the first offset that is not in the archive.
Ends = Mapping[str, Mapping[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRange:
    """What a batch has of one partition: the offsets from `start` to before `end`.

    Fewer records than offsets is normal where a topic is compacted or written to in transactions.
    """

    topic: str
    partition: int
    start: int
    end: int
    record_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What several batches hold together."""

    batch_count: int = 0
    file_count: int = 0
    record_count: int = 0
    byte_count: int = 0

    def plus(self, record_count: int, files: Mapping[str, int]) -> Totals:
        """The totals with one batch more."""
        return Totals(
            batch_count=self.batch_count + 1,
            file_count=self.file_count + len(files),
            record_count=self.record_count + record_count,
            byte_count=self.byte_count + sum(files.values()),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a batch holds, and how far the archive reaches with it."""

    number: int
    spark_batch_id: int
    topic_ids: Mapping[str, str | None]
    ranges: tuple[BatchRange, ...]
    ends: Ends
    first_timestamp_ms: int
    last_timestamp_ms: int
    files: Mapping[str, int]
    totals: Totals

    @property
    def record_count(self) -> int:
        """The records of this batch."""
        return sum(one.record_count for one in self.ranges)

    @property
    def byte_count(self) -> int:
        """The bytes of this batch's files."""
        return sum(self.files.values())

    def to_json(self) -> str:
        """The text of the file."""
        document = {
            "version": VERSION,
            "number": self.number,
            "spark_batch_id": self.spark_batch_id,
            "topic_ids": dict(self.topic_ids),
            "ranges": [
                {
                    "topic": one.topic,
                    "partition": one.partition,
                    "start": one.start,
                    "end": one.end,
                    "records": one.record_count,
                }
                for one in self.ranges
            ],
            "ends": {
                topic: {str(partition): end for partition, end in ends.items()}
                for topic, ends in self.ends.items()
            },
            "timestamps_ms": [self.first_timestamp_ms, self.last_timestamp_ms],
            "files": dict(self.files),
            "totals": {
                "batches": self.totals.batch_count,
                "files": self.totals.file_count,
                "records": self.totals.record_count,
                "bytes": self.totals.byte_count,
            },
        }
        return json.dumps(document, indent=1) + "\n"


def parse_manifest(text: str) -> Manifest:
    """Read what `to_json` wrote. Raises: ValueError if it is cut short or of another version."""
    document = json.loads(text)
    try:
        if document["version"] != VERSION:
            raise ValueError(f"a manifest of version {document['version']}, not {VERSION}")
        return _manifest(document)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no manifest of a batch: {error!r}") from error


def _manifest(document: Mapping[str, Any]) -> Manifest:
    first, last = document["timestamps_ms"]
    return Manifest(
        number=document["number"],
        spark_batch_id=document["spark_batch_id"],
        topic_ids=document["topic_ids"],
        ranges=tuple(
            BatchRange(
                topic=one["topic"],
                partition=one["partition"],
                start=one["start"],
                end=one["end"],
                record_count=one["records"],
            )
            for one in document["ranges"]
        ),
        ends={
            topic: {int(partition): end for partition, end in ends.items()}
            for topic, ends in document["ends"].items()
        },
        first_timestamp_ms=first,
        last_timestamp_ms=last,
        files=document["files"],
        totals=Totals(
            batch_count=document["totals"]["batches"],
            file_count=document["totals"]["files"],
            record_count=document["totals"]["records"],
            byte_count=document["totals"]["bytes"],
        ),
    )


def ends_of(ranges: Iterable[BatchRange]) -> dict[str, dict[int, int]]:
    """How far these ranges reach."""
    reached: dict[str, dict[int, int]] = {}
    for one in ranges:
        reached = advanced(reached, {one.topic: {one.partition: one.end}})
    return reached


def advanced(ends: Ends, by: Ends) -> dict[str, dict[int, int]]:
    """The farther of the two in every partition."""
    reached = {topic: dict(found) for topic, found in ends.items()}
    for topic, found in by.items():
        partitions = reached.setdefault(topic, {})
        for partition, end in found.items():
            partitions[partition] = max(partitions.get(partition, 0), end)
    return reached

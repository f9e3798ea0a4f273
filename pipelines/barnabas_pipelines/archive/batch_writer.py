"""Adds batches to an archive: what it lacks is staged, checked against the cluster, published.

Not here: how rows become files (`staging.py`), what makes a batch appear once (`directory.py`).
Free of Spark, so that it can be killed at every step in a test.

Invariants: a batch that is given again, in the same or in other portions, adds nothing twice; none
is published that would leave a hole, or whose topic is another than before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from barnabas_pipelines.archive.checkpoint import batch_ends
from barnabas_pipelines.archive.directory import ArchiveDirectory
from barnabas_pipelines.archive.manifest import (
    BatchRange,
    Ends,
    Manifest,
    Totals,
    advanced,
    ends_of,
)
from barnabas_pipelines.errors import DataLossError, TopicGoneError
from barnabas_pipelines.storage.file_store import FileStore


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedBatch:
    """Files that are written and not yet seen by readers, and what they hold.

    Timestamps are those of the first and the last record, -1 without records.
    """

    attempt: str
    ranges: tuple[BatchRange, ...]
    first_timestamp_ms: int
    last_timestamp_ms: int
    files: Mapping[str, int]


class Stager(Protocol):
    """Makes files of records."""

    def stage(self, records: Any, ends: Ends, last: Manifest | None) -> StagedBatch:
        """Write the records at and behind the ends; `last` tells what size to expect."""

    def discard(self) -> None:
        """Take away what was staged and is not published."""


class BatchWriter:
    """What `foreachBatch` calls; goes on behind the archive's newest batch, `last`.

    `topic_ids` asks the cluster for the ids that the topics have at that moment.
    """

    def __init__(
        self,
        directory: ArchiveDirectory,
        last: Manifest | None,
        stager: Stager,
        *,
        topic_ids: Callable[[], Mapping[str, str | None]],
        checkpoint: FileStore,
        say: Callable[[str], None],
        is_loss_allowed: bool = False,
    ) -> None:
        self._directory = directory
        self._last = last
        self._stager = stager
        self._topic_ids = topic_ids
        self._checkpoint = checkpoint
        self._say = say
        self._is_loss_allowed = is_loss_allowed

    def __call__(self, records: Any, spark_batch_id: int) -> None:
        """Add to the archive what it has not yet of a batch.

        Raises: TopicGoneError if a topic was made anew; DataLossError if the batch begins behind
            the archive's end; SecondWriterError.
        """
        ends: Ends = self._last.ends if self._last is not None else {}
        ids = self._topic_ids()
        self._check_ids(ids)
        self._check_start(ends, batch_ends(self._checkpoint, spark_batch_id - 1))
        try:
            staged = self._stager.stage(records, ends, self._last)
            # Again, because the topic may have been made anew while it was read.
            self._check_ids(self._topic_ids(), ids)
            # Spark's end may lie behind the last record: offsets without one count as archived.
            reached = advanced(ends, ends_of(staged.ranges))
            reached = advanced(reached, batch_ends(self._checkpoint, spark_batch_id) or {})
            if reached == {topic: dict(found) for topic, found in ends.items()}:
                self._say(f"batch {spark_batch_id} was archived already")
                return
            totals = self._last.totals if self._last is not None else Totals()
            manifest = Manifest(
                number=self._last.number + 1 if self._last is not None else 0,
                spark_batch_id=spark_batch_id,
                topic_ids=ids,
                ranges=staged.ranges,
                ends=reached,
                first_timestamp_ms=staged.first_timestamp_ms,
                last_timestamp_ms=staged.last_timestamp_ms,
                files=staged.files,
                totals=totals.plus(sum(one.record_count for one in staged.ranges), staged.files),
            )
            self._directory.publish(staged.attempt, manifest)
            self._last = manifest
        finally:
            self._stager.discard()

    def _check_ids(
        self, now: Mapping[str, str | None], before: Mapping[str, str | None] | None = None
    ) -> None:
        known = before or (self._last.topic_ids if self._last is not None else {})
        for topic, topic_id in now.items():
            expected = known.get(topic)
            if topic_id is not None and expected is not None and topic_id != expected:
                raise TopicGoneError(
                    f"topic {topic} was deleted and made anew since this archive was begun (its id "
                    f"was {expected}, now it is {topic_id}), so its offsets mean other records: "
                    "archive it into another folder, with another checkpoint"
                )

    def _check_start(self, ends: Ends, starts: Ends | None) -> None:
        """Notice that the checkpoint is ahead of the archive, before the hole is made."""
        for topic, found in (starts or {}).items():
            for partition, start in found.items():
                end = ends.get(topic, {}).get(partition, 0)
                # A partition that the archive knows nothing of may begin anywhere.
                if partition not in ends.get(topic, {}) or start <= end:
                    continue
                text = (
                    f"the checkpoint goes on at offset {start} of {topic}-{partition}, but the "
                    f"archive ends at {end}: {start - end} offsets would be missing"
                )
                if not self._is_loss_allowed:
                    raise DataLossError(
                        f"{text}; delete the checkpoint to go on where the archive ends, or let it "
                        "be with --no-fail-on-data-loss"
                    )
                self._say(text)

"""Archives batch after batch: reads behind the table's end, checks the topic, commits.

The rows of a batch are read once, into local disks, before the topic's id is read again: of a
topic that was made anew while it was read nothing is committed. The commit itself says how far
the table reaches then, and only one of several writers can make it (`tables/delta.py`).

Not here: what a batch reads (`planning.py`). Needs pyspark.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from barnabas_pipelines.archive.planning import (
    BatchPlan,
    Ends,
    check_losses,
    check_same_topic,
    plan_batch,
)
from barnabas_pipelines.errors import PipelineError
from barnabas_pipelines.jobs.cluster_facts import ClusterFacts, TopicFacts
from barnabas_pipelines.tables.marks import Mark
from barnabas_pipelines.tables.table import Table, TableState
from barnabas_pipelines.transforms.archive_rows import PARTITIONED_BY, archive_rows, reach_of_rows
from barnabas_pipelines.transforms.once import read_once
from barnabas_protocol.ids import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KIND: Final = "archive"
_SETTLING_ATTEMPTS: Final = 20
_SETTLING_SECONDS: Final = 0.5

#: Reads the offsets from the first to before the second, by partition; of none, no records.
ReadRange = Callable[[Ends, Ends], "DataFrame"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DoneBatch:
    """A batch that is in the table."""

    number: int
    record_count: int
    left_count: int
    ends: Ends


class Archiver:
    """Brings an archive up to date with its topics, one batch at a time."""

    def __init__(
        self,
        table: Table,
        cluster: ClusterFacts,
        topics: Sequence[str],
        read: ReadRange,
        report: Callable[[str], None],
        *,
        first_offsets: str,
        limit: int | None,
        is_loss_allowed: bool,
        reads_committed: bool,
    ) -> None:
        self._table = table
        self._cluster = cluster
        self._topics = topics
        self._read = read
        self._report = report
        self._first_offsets = first_offsets
        self._limit = limit
        self._is_loss_allowed = is_loss_allowed
        self._reads_committed = reads_committed

    def goal(self) -> Ends:
        """Behind the last records that there are now."""
        return {
            TopicPartition(log.name, partition): end
            for log in self._logs().values()
            for partition, end in log.ends.items()
        }

    def batch(self, goal: Ends | None) -> DoneBatch | None:
        """Archive the next batch; None if there is nothing left before the goal.

        Raises: TopicGoneError, DataLossError, SecondWriterError, TableChangedError.
        """
        state = known(self._table)
        mark = state.mark
        plan = self._plan(mark, goal)
        if not plan.is_needed:
            return None
        check_losses(plan, is_loss_allowed=self._is_loss_allowed)
        for text in plan.lost:
            self._report(f"goes on without: {text}")
        ids = {one.name: one.topic_id for one in plan.topics}
        rows = archive_rows(self._read(plan.starts, plan.ends), ids)
        with read_once(rows) as kept:
            self._check_ids(ids)
            new = Mark(
                kind=KIND,
                sequence=state.sequence + 1,
                attempt=uuid.uuid4().hex,
                topics=plan.topics,
                base=state.version,
            )
            self._table.append(kept.rows, new, PARTITIONED_BY)
        return DoneBatch(
            number=new.sequence,
            record_count=kept.count,
            left_count=plan.left_count,
            ends=plan.ends,
        )

    def _logs(self) -> dict[str, TopicFacts]:
        return self._cluster.topics(self._topics, read_committed=self._reads_committed)

    def _plan(self, mark: Mark | None, goal: Ends | None) -> BatchPlan:
        """Raises: PipelineError if the topic does not reach the table's end."""
        for _ in range(_SETTLING_ATTEMPTS):
            logs = self._logs()
            plan = plan_batch(
                mark,
                logs.values(),
                first_offsets=self._first_offsets,
                limit=self._limit,
                goal=goal,
                epoch_ends=self._epoch_ends(mark, logs),
            )
            if not plan.contradictions:
                return plan
            # A leader that was just elected may not know yet how far consumers could read.
            time.sleep(_SETTLING_SECONDS)
        raise PipelineError(
            f"the archive has more than the topic, which has lost records: "
            f"{'; '.join(plan.contradictions)}; archive it into another folder"
        )

    def _epoch_ends(self, mark: Mark | None, logs: Mapping[str, TopicFacts]) -> Ends:
        """Below which offsets the topics are what they were when they were archived."""
        return {
            TopicPartition(reach.name, partition): end
            for reach in (mark.topics if mark is not None else ())
            if reach.name in logs and reach.topic_id == logs[reach.name].topic_id
            for partition, end in self._cluster.epoch_ends(
                reach.name,
                {one: epoch for one, epoch in reach.epochs.items() if one in logs[reach.name].ends},
            ).items()
        }

    def _check_ids(self, before: Mapping[str, str | None]) -> None:
        for name, now in self._cluster.topic_ids(self._topics).items():
            check_same_topic(name, before[name], now)


def known(table: Table) -> TableState:
    """The state of an archive, with a mark if there are any rows.

    Where the history with the last mark was cleaned away, the rows themselves are read once.
    Raises: TableChangedError.
    """
    state = table.state()
    state.check_kind(KIND)
    if state.mark is not None or state.sequence == 0:
        return state
    mark = Mark(
        kind=KIND,
        sequence=state.sequence,
        attempt="",
        topics=reach_of_rows(table.rows(state.version)),
        base=state.version,
    )
    return replace(state, mark=mark)


def range_options(starts: Ends, ends: Ends) -> dict[str, str]:
    """The options of a source that make it read these offsets and no others."""

    def text(offsets: Ends) -> str:
        return json.dumps(by_topic(offsets))

    partitions = {topic: sorted(found) for topic, found in by_topic(ends).items()}
    return {
        "assign": json.dumps(partitions),
        "startingOffsets": text(starts),
        "endingOffsets": text(ends),
        "failOnDataLoss": "true",
    }


def by_topic(offsets: Mapping[TopicPartition, Any]) -> dict[str, dict[int, Any]]:
    """The same, by topic and then by partition."""
    found: dict[str, dict[int, Any]] = {}
    for (topic, partition), value in offsets.items():
        found.setdefault(topic, {})[partition] = value
    return found

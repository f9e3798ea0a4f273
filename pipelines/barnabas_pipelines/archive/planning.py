"""What the next batch of an archive reads: from where its table ends, as far as is allowed. Pure.

The table is all that an archive remembers, so a batch begins where the table ends, by definition:
there is nothing to be ahead of it or behind it. What can speak against going on there:

- the topic was deleted and made anew, so that its offsets mean other records: refused, for good;
- retention has taken records that were not read: refused, or reported, counted and kept as gaps;
- the topic ends before the table does, as while a leader was just elected: `contradictions`;
- the topic has lost records that the table has, and got others at their offsets since, as after an
  unclean election: its leader epochs say so, and that is a contradiction, too.

Not here: requests to the cluster (`jobs/cluster_facts.py`), reading and writing (`batches.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from barnabas_pipelines.errors import DataLossError, OptionsError, TopicGoneError
from barnabas_pipelines.offsets import share
from barnabas_pipelines.tables.marks import Gap, Mark, TopicReach
from barnabas_protocol.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas_pipelines.jobs.cluster_facts import TopicFacts

_EARLIEST: Final = -2
_LATEST: Final = -1

#: Offsets by partition.
Ends = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """A batch: what it reads, and what the table has of all topics when it is committed.

    `starts` and `ends` are of the partitions that have something to read; `left_count` offsets lie
    behind them. `lost` are records that are gone. With `is_needed` there is something to commit,
    if only that a partition was seen for the first time.
    """

    starts: Ends
    ends: Ends
    topics: tuple[TopicReach, ...]
    left_count: int
    lost: tuple[str, ...]
    contradictions: tuple[str, ...]
    is_needed: bool


def plan_batch(
    mark: Mark | None,
    logs: Iterable[TopicFacts],
    *,
    first_offsets: str,
    limit: int | None = None,
    goal: Ends | None = None,
    epoch_ends: Ends | None = None,
) -> BatchPlan:
    """The batch behind the mark, of `limit` offsets at most and not beyond the goal.

    `epoch_ends` say below which offsets logs are what they were under the mark's leader epochs.
    Raises: TopicGoneError, OptionsError.
    """
    plan = _Planning(mark, first_offsets, epoch_ends or {})
    for log in logs:
        plan.add(log, goal)
    sizes = {one: end - plan.starts[one] for one, end in plan.ends.items()}
    shares = sizes if limit is None else share(limit, sizes)
    ends = {one: plan.starts[one] + shares[one] for one in plan.ends}
    read = {one: end for one, end in ends.items() if end > plan.starts[one]}
    return BatchPlan(
        starts={one: plan.starts[one] for one in read},
        ends=read,
        topics=plan.topics(ends),
        left_count=sum(plan.ends.values()) - sum(ends.values()),
        lost=tuple(plan.lost),
        contradictions=tuple(plan.contradictions),
        is_needed=bool(read) or plan.has_new,
    )


def check_losses(plan: BatchPlan, *, is_loss_allowed: bool) -> None:
    """Raises: DataLossError with what is gone, unless that is allowed."""
    if plan.lost and not is_loss_allowed:
        raise DataLossError(
            f"records are gone that were not archived: {'; '.join(plan.lost)}; go on without them "
            "with --no-fail-on-data-loss"
        )


def check_same_topic(name: str, before: str | None, now: str | None) -> None:
    """Raises: TopicGoneError if the topic is another one than before."""
    if before is not None and now is not None and before != now:
        raise TopicGoneError(
            f"topic {name} was deleted and made anew since this archive was begun (its id was "
            f"{before}, now it is {now}), so its offsets mean other records: archive it into "
            "another folder"
        )


class _Planning:
    """Gathers, topic by topic, where reading goes on."""

    def __init__(self, mark: Mark | None, first_offsets: str, epoch_ends: Ends) -> None:
        self._mark = mark
        self._first_offsets = first_offsets
        self._epoch_ends = epoch_ends
        self._logs: dict[str, TopicFacts] = {}
        self._gaps: dict[str, tuple[Gap, ...]] = {}
        self.starts: dict[TopicPartition, int] = {}
        self.ends: dict[TopicPartition, int] = {}
        self.lost: list[str] = []
        self.contradictions: list[str] = []
        self.has_new = False

    def add(self, log: TopicFacts, goal: Ends | None) -> None:
        """Take in a topic as it is now."""
        self._logs[log.name] = log
        reach = self._mark.topic(log.name) if self._mark is not None else None
        if reach is not None:
            check_same_topic(log.name, reach.topic_id, log.topic_id)
            missing = sorted(set(reach.ends) - set(log.ends))
            if missing:
                raise TopicGoneError(
                    f"topic {log.name} was deleted and made anew since this archive was begun: "
                    f"partition {missing[0]} is not there any more; archive it into another folder"
                )
        for partition in sorted(log.ends):
            self._add_partition(log, reach, partition, goal)

    def _add_partition(
        self, log: TopicFacts, reach: TopicReach | None, partition: int, goal: Ends | None
    ) -> None:
        key = TopicPartition(log.name, partition)
        first, last = log.starts[partition], log.ends[partition]
        if reach is None:
            start = _first_offset(self._first_offsets, log, partition)
            self.has_new = True
        else:
            # A partition that was not there when the topic was looked at last began at 0.
            start = reach.ends.get(partition, 0)
            self.has_new |= partition not in reach.ends
        if (epoch_end := self._epoch_ends.get(key, start)) < start:
            self.contradictions.append(
                f"{log.name}-{partition}: the archive ends at offset {start}, but the topic has "
                f"lost the records from offset {epoch_end} on, and has others there"
            )
        if start < first:
            self.lost.append(
                f"{log.name}-{partition}: the archive ends at offset {start}, the topic begins "
                f"at {first}, {first - start} offsets are gone"
            )
            gap = Gap(partition, start, first)
            self._gaps[log.name] = (*self._gaps.get(log.name, ()), gap)
            self.has_new = True
            start = first
        elif start > last:
            self.contradictions.append(
                f"{log.name}-{partition}: the archive ends at offset {start}, the topic at {last}"
            )
        # Of a partition that is newer than the goal nothing is read, or the run might never end.
        end = last if goal is None else min(last, goal.get(key, start))
        self.starts[key] = start
        self.ends[key] = max(start, end)

    def topics(self, ends: Ends) -> tuple[TopicReach, ...]:
        """What the table has of all topics behind these ends, also of those not named now."""
        before = {one.name: one for one in self._mark.topics} if self._mark is not None else {}
        for name, log in self._logs.items():
            old = before.get(name)
            starts = {
                partition: self.starts[TopicPartition(name, partition)] for partition in log.ends
            }
            before[name] = TopicReach(
                name=name,
                topic_id=log.topic_id,
                starts={**starts, **(old.starts if old is not None else {})},
                ends={one: ends[TopicPartition(name, one)] for one in log.ends},
                epochs=log.epochs,
                gaps=(*(old.gaps if old is not None else ()), *self._gaps.get(name, ())),
            )
        return tuple(before[name] for name in sorted(before))


def _first_offset(chosen: str, log: TopicFacts, partition: int) -> int:
    """Where the first batch of a topic begins. Raises: OptionsError."""
    first, last = log.starts[partition], log.ends[partition]
    word = chosen.strip().lower()
    if word in ("earliest", "latest"):
        return first if word == "earliest" else last
    try:
        offset = int(json.loads(chosen)[log.name][str(partition)])
    except (ValueError, KeyError, TypeError):
        raise OptionsError(
            f"--starting-offsets {chosen}: it must be earliest, latest or JSON that names every "
            f'partition of every topic, such as {{"{log.name}": {{"{partition}": 0}}}}'
        ) from None
    if offset in (_EARLIEST, _LATEST):
        return first if offset == _EARLIEST else last
    if not first <= offset <= last:
        raise OptionsError(
            f"--starting-offsets: {log.name}-{partition} has the offsets {first} to {last}, not "
            f"{offset}"
        )
    return offset

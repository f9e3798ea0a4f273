"""Which partitions a group is stuck at: records arrive, members are there, nothing is committed.

Pure but for its memory: what was seen when a committed offset moved last. The time is an argument.
The operator tells it in a status, command line and console in a diagnosis.

Invariant: after a restart nothing is called stuck that was not, nor healthy that was stuck, before
it has been watched for as long as it takes to tell.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from barnabas_protocol.ids import TopicPartition

# Longer than consumers with default settings take between two commits (5 s), even slow ones.
STUCK_AFTER_MS = 120_000


@dataclass(slots=True)
class _Seen:
    committed: int
    end: int
    since_ms: int
    was_stuck: bool = False


class ProgressWatch:
    """What the groups of one cluster have committed, over time."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[TopicPartition, _Seen]] = {}

    def __len__(self) -> int:
        """How many groups are remembered."""
        return len(self._groups)

    def stuck(
        self,
        group_id: str,
        committed: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
        now_ms: int,
        *,
        has_members: bool,
        told_before: Collection[TopicPartition] = (),
    ) -> dict[TopicPartition, int]:
        """The partitions that the group is stuck at, and since when it has been seen there.

        `told_before` are those that were told before a restart; they count for what was not watched
        yet. A partition without an end is not judged.
        """
        seen = self._groups.setdefault(group_id, {})
        for gone in seen.keys() - committed.keys():
            del seen[gone]
        stuck = {}
        for topic_partition, offset in committed.items():
            end = ends.get(topic_partition)
            if end is None:
                continue
            entry = seen.get(topic_partition)
            if entry is None:
                was_stuck = topic_partition in told_before
                entry = seen[topic_partition] = _Seen(offset, end, now_ms, was_stuck)
            elif entry.committed != offset or not has_members:
                seen[topic_partition] = _Seen(offset, end, now_ms)
                continue
            if not has_members or offset >= end:
                entry.was_stuck = False
                continue
            is_overdue = now_ms - entry.since_ms >= STUCK_AFTER_MS and end > entry.end
            if entry.was_stuck or is_overdue:
                entry.was_stuck = True
                stuck[topic_partition] = entry.since_ms
        return stuck

    def forget_others(self, group_ids: Collection[str]) -> None:
        """Free what is kept for groups that nobody asks about any more."""
        for gone in self._groups.keys() - set(group_ids):
            del self._groups[gone]

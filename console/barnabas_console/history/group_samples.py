"""What was seen of each group last, and what that means: lag, lag in time, diagnosis, movement.

Without I/O: looks come in, samples come out. Not here: asking brokers (`sampler.py`).

Invariants: a sample is made of one look and never changed; what is kept of groups that are gone is
freed with the next look.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from barnabas_client.facts.group_diagnosis import Finding, diagnose
from barnabas_client.facts.group_observation import GroupObservation
from barnabas_client.facts.group_watch import GroupMovement, GroupWatch
from barnabas_console.history.end_history import EndHistory
from barnabas_protocol.ids import TopicPartition

#: After so many the loop goes on: a thousand at once would hold it.
_GROUPS_PER_SLICE: Final = 50
_PLACES_PER_SLICE: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSample:
    """A group at one look; `lag` is None where one partition's is not known."""

    group: GroupObservation
    movement: GroupMovement
    finding: Finding
    lag: int | None
    lag_known: int
    lag_ms: Mapping[TopicPartition, int]

    @property
    def lag_seconds(self) -> float | None:
        """Of the partition that is furthest behind; 0 where nothing is left to read."""
        if self.lag_known == 0:
            return 0.0 if self.lag == 0 else None
        return round(max(self.lag_ms.values()) / 1000, 1) if self.lag_ms else None


class GroupSamples:
    """All groups of a cluster."""

    def __init__(self) -> None:
        self.by_id: dict[str, GroupSample] = {}
        self._watch = GroupWatch()
        self.ends = EndHistory()

    async def take(
        self,
        groups: Mapping[str, GroupObservation],
        record_times: Mapping[tuple[TopicPartition, int], int],
        *,
        now_ms: int,
        wall_ms: int,
    ) -> dict[str, GroupSample]:
        """Remember a look at all groups. `now_ms` is the monotonic clock's."""
        places: dict[TopicPartition, int] = {}
        for number, group in enumerate(groups.values()):
            if number % _GROUPS_PER_SLICE == 0:
                await asyncio.sleep(0)
            for place in group.places:
                end = group.ends.get(place)
                if end is not None:
                    places[place] = end
        for number, (place, end) in enumerate(places.items()):
            if number % _PLACES_PER_SLICE == 0:
                await asyncio.sleep(0)
            self.ends.add(place, end, wall_ms)
        self.ends.forget_others(places.keys())
        self._watch.forget_others(groups.keys())
        samples = {}
        for number, (group_id, group) in enumerate(groups.items()):
            if number % _GROUPS_PER_SLICE == 0:
                await asyncio.sleep(0)
            samples[group_id] = self._sample(group, record_times, now_ms, wall_ms)
        self.by_id = samples
        return samples

    def lag_ms(
        self,
        group: GroupObservation,
        wall_ms: int,
        record_times: Mapping[tuple[TopicPartition, int], int] | None = None,
    ) -> dict[TopicPartition, int]:
        """The lag in time of lagging partitions where the history reaches or a record tells."""
        found = {}
        for place, lag in group.lags.items():
            if not lag or place not in group.committed:
                continue
            position = max(group.committed[place], group.starts.get(place, 0))
            behind = self.ends.behind_ms(place, position, wall_ms)
            if behind is None and record_times and (place, position) in record_times:
                behind = max(0, wall_ms - record_times[place, position])
            if behind is not None:
                found[place] = behind
        return found

    def readers_of(self, topic: str) -> Iterable[GroupSample]:
        """The groups that have offsets of a topic, or members that read it now."""
        for _, sample in sorted(self.by_id.items()):
            if any(place.topic == topic for place in sample.group.places):
                yield sample

    def reader_counts(self) -> dict[str, int]:
        """By topic, how many groups read it."""
        counts: dict[str, int] = {}
        for sample in self.by_id.values():
            for topic in {place.topic for place in sample.group.places}:
                counts[topic] = counts.get(topic, 0) + 1
        return counts

    def _sample(
        self,
        group: GroupObservation,
        record_times: Mapping[tuple[TopicPartition, int], int],
        now_ms: int,
        wall_ms: int,
    ) -> GroupSample:
        movement = self._watch.observe(group, now_ms)
        lags = group.lags
        return GroupSample(
            group=group,
            movement=movement,
            finding=diagnose(group, wall_ms, movement)[0],
            lag=sum(lags.values()) if len(lags) == len(group.places) else None,
            lag_known=sum(lags.values()),
            lag_ms=self.lag_ms(group, wall_ms, record_times),
        )

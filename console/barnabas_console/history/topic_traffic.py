"""How many records come to each topic: from the ends of its partitions, read by turns (CON-137).

Pure but for its memory: leaders and ends come in, rates come out; what is long of ten thousand
topics goes in slices of the loop. Not here: asking for them (`sampler.py`).

Invariants: a topic has a rate once all of its partitions that have a leader were read twice; a
partition costs two numbers, however long it is watched; between slices all is as it was before.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping
from typing import Final

from barnabas_console.history.changes import NO_LEADER, Leadership
from barnabas_console.loop_slices import LoopSlices
from barnabas_protocol.ids import TopicPartition

_UNKNOWN: Final = -1
_NEVER: Final = 0


class TopicTraffic:
    """The topics of one cluster."""

    def __init__(self) -> None:
        self._leadership: Mapping[str, Leadership] = {}
        # Where a topic is in the two arrays: first itself, that is when it was read and what comes
        # to all of it, then its partitions, that is their ends and what comes to each.
        self._first: dict[str, int] = {}
        self._ends = array("q")
        self._rates = array("f")
        self._turn: list[str] = []

    @property
    def leadership(self) -> Mapping[str, Leadership]:
        """Leaders and in-sync replicas as they were told last."""
        return self._leadership

    async def follow(self, leadership: Mapping[str, Leadership], slices: LoopSlices) -> None:
        """Take what there is of topics now; what is gone is forgotten."""
        placed = self._first, self._ends, self._rates
        if not self._has_places_of(leadership):
            placed = await self._placed(leadership, slices)
        await slices.pause()
        waiting = set(self._turn) & leadership.keys()
        turn = [name for name in self._turn if name in waiting]
        await slices.pause()
        turn += sorted(leadership.keys() - waiting)
        # At once: who looks between slices finds leaders and places that are of one time.
        self._first, self._ends, self._rates = placed
        self._leadership, self._turn = leadership, turn

    def leaderless(self, places: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
        """Those of some partitions that have no leader."""
        return frozenset(place for place in places if self._leader(place) == NO_LEADER)

    def next_partitions(self, first: Iterable[str], limit: int) -> list[TopicPartition]:
        """The partitions that are to be read now, whole topics: some first, then who waits longest.

        A topic with more partitions than the limit comes alone.
        """
        chosen: list[TopicPartition] = []
        asked = frozenset(first)
        turn = [name for name in self._turn if name in asked]
        turn += [name for name in self._turn if name not in asked]
        known: set[str] = set()
        for name in turn:
            with_leader = [
                TopicPartition(name, number)
                for number, leader in enumerate(self._leadership[name].leaders)
                if leader != NO_LEADER
            ]
            if chosen and len(chosen) + len(with_leader) > limit:
                break
            chosen += with_leader
            known.add(name)
        self._turn = [name for name in self._turn if name not in known] + [
            name for name in self._turn if name in known
        ]
        return chosen

    def read(self, ends: Mapping[TopicPartition, int], at_ms: int) -> None:
        """Take ends of whole topics, read at a moment of the monotonic clock."""
        by_topic: dict[str, dict[int, int]] = {}
        for place, end in ends.items():
            by_topic.setdefault(place.topic, {})[place.partition] = end
        for name, told in by_topic.items():
            first = self._first.get(name)
            if first is not None and at_ms > self._ends[first]:
                self._read_topic(first, self._leadership[name], told, at_ms)

    def rate(self, name: str) -> float | None:
        """Records per second of a topic; None where that is not known yet."""
        first = self._first.get(name)
        return None if first is None else self._rate_at(first)

    def partition_rates(self, name: str) -> list[float | None]:
        """Records per second of each partition."""
        first = self._first.get(name)
        if first is None:
            return []
        count = len(self._leadership[name].leaders)
        if self._rate_at(first) is None:
            return [None] * count
        return [round(rate, 3) for rate in self._rates[first + 1 : first + 1 + count]]

    def rates(self) -> dict[str, float]:
        """All topics whose rate is known."""
        return {
            name: rate
            for name, first in self._first.items()
            if (rate := self._rate_at(first)) is not None
        }

    def rates_of_leaders(self) -> dict[int, float]:
        """Records per second that come to each broker as a leader."""
        sums: dict[int, float] = {}
        for name, first in self._first.items():
            if self._rate_at(first) is None:
                continue
            for number, leader in enumerate(self._leadership[name].leaders, first + 1):
                if leader != NO_LEADER:
                    sums[leader] = sums.get(leader, 0.0) + self._rates[number]
        return sums

    def _has_places_of(self, leadership: Mapping[str, Leadership]) -> bool:
        """Whether there are these topics, with as many partitions."""
        return self._leadership.keys() == leadership.keys() and all(
            known is before or len(known.leaders) == len(before.leaders)
            for known, before in zip(
                leadership.values(), map(self._leadership.__getitem__, leadership), strict=True
            )
        )

    async def _placed(
        self, leadership: Mapping[str, Leadership], slices: LoopSlices
    ) -> tuple[dict[str, int], array[int], array[float]]:
        """Places for all topics; those that are as long as before keep what was read."""
        first: dict[str, int] = {}
        ends, rates = array("q"), array("f")
        new: dict[int, tuple[array[int], array[float]]] = {}
        async for names in slices.pieces(list(leadership)):
            for name in names:
                count = len(leadership[name].leaders)
                first[name] = len(ends)
                old = self._first.get(name)
                if old is not None and len(self._leadership[name].leaders) == count:
                    ends += self._ends[old : old + 1 + count]
                    rates += self._rates[old : old + 1 + count]
                    continue
                if count not in new:
                    new[count] = (
                        array("q", [_NEVER, *[_UNKNOWN] * count]),
                        array("f", [math.nan, *[0.0] * count]),
                    )
                ends += new[count][0]
                rates += new[count][1]
        return first, ends, rates

    def _rate_at(self, first: int) -> float | None:
        rate = self._rates[first]
        return None if math.isnan(rate) else rate

    def _read_topic(
        self, first: int, known: Leadership, told: Mapping[int, int], at_ms: int
    ) -> None:
        read_ms = self._ends[first]
        seconds = (at_ms - read_ms) / 1000
        is_known = read_ms != _NEVER
        total = 0.0
        for number, leader in enumerate(known.leaders):
            place = first + 1 + number
            end, before = told.get(number, _UNKNOWN), self._ends[place]
            self._rates[place] = 0.0
            if end == _UNKNOWN:
                # Without a leader nothing comes; with one that did not tell, nobody knows.
                is_known = is_known and leader == NO_LEADER
                continue
            if before == _UNKNOWN:
                is_known = False
            elif end > before:
                self._rates[place] = (end - before) / seconds
                total += self._rates[place]
            self._ends[place] = end
        self._ends[first] = at_ms
        self._rates[first] = total if is_known else math.nan

    def _leader(self, place: TopicPartition) -> int | None:
        known = self._leadership.get(place.topic)
        if known is None or place.partition >= len(known.leaders):
            return None
        return known.leaders[place.partition]

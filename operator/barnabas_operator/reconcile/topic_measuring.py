"""Sizes of one cluster's topics, and messages per second from how far high watermarks have risen.

They are asked for now and then and not in every pass. Over a short time a rate says little, so it
is taken over at least `WINDOW_SECONDS`; until the first one is known, and when a topic was made
anew, there is none. Each topic has a window of its own: passes look at some topics now and at
others later.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from barnabas_operator.gateway.kafka_topics import TopicMeasures
from barnabas_operator.reconcile.topic_state import ObservedTopic

WINDOW_SECONDS = 20.0

EndOffsets = Mapping[str, Mapping[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Window:
    opened_at: float
    end_offsets: Mapping[int, int]


@dataclass(slots=True)
class MessageRates:
    """What is remembered of one cluster from pass to pass."""

    _windows: dict[str, _Window] = field(default_factory=dict)
    _rates: dict[str, float] = field(default_factory=dict)

    def is_due(self, topic: str, now: float) -> bool:
        """Whether measuring the topic would give a new rate, or open a window for one."""
        window = self._windows.get(topic)
        return window is None or now - window.opened_at >= WINDOW_SECONDS

    def update(self, now: float, end_offsets: EndOffsets) -> None:
        """Take a measure of some topics at `now`, in seconds of a monotonic clock."""
        for topic, ends in end_offsets.items():
            if not self.is_due(topic, now):
                continue
            window = self._windows.get(topic)
            self._windows[topic] = _Window(opened_at=now, end_offsets=ends)
            rate = None
            if window is not None:
                rate = _rate(window.end_offsets, ends, now - window.opened_at)
            if rate is None:
                self._rates.pop(topic, None)
            else:
                self._rates[topic] = rate

    def forget(self, topics: Collection[str]) -> None:
        """Free what is kept for topics that could not be measured, or are gone."""
        for topic in topics:
            self._windows.pop(topic, None)
            self._rates.pop(topic, None)

    def rate(self, topic: str) -> float | None:
        """Messages per second, None while not known."""
        return self._rates.get(topic)


class Measurer(Protocol):
    """What can be asked."""

    async def measure(self, topics: Mapping[str, ObservedTopic]) -> TopicMeasures:
        """Sizes and end offsets."""
        ...


@dataclass(slots=True)
class Measuring:
    """What was measured last; topics are told apart by their ids."""

    _rates: MessageRates = field(default_factory=MessageRates)
    _sizes_bytes: dict[str, int] = field(default_factory=dict)
    _ids: dict[str, str] = field(default_factory=dict)

    async def update(
        self, now: float, measurer: Measurer, topics: Mapping[str, ObservedTopic]
    ) -> None:
        """Measure these topics, unless that was done a moment ago and none of them is new."""
        if not any(
            self._ids.get(name) != topic.topic_id or self._rates.is_due(name, now)
            for name, topic in topics.items()
        ):
            return
        measures = await measurer.measure(topics)
        self._rates.forget(topics.keys() - measures.end_offsets.keys())
        self._rates.update(now, measures.end_offsets)
        for name, topic in topics.items():
            self._sizes_bytes[name] = measures.sizes_bytes.get(name, 0)
            self._ids[name] = topic.topic_id

    def forget_others(self, topics: Collection[str]) -> None:
        """Free what is kept for topics that have no resource any more."""
        if len(self._ids) <= 2 * len(topics):
            return
        gone = self._ids.keys() - set(topics)
        self._rates.forget(gone)
        for name in gone:
            del self._ids[name]
            del self._sizes_bytes[name]

    def size_bytes(self, topic: str) -> int | None:
        """All replicas together, None where it was not measured."""
        return self._sizes_bytes.get(topic)

    def rate(self, topic: str) -> float | None:
        """Messages per second, None while not known."""
        return self._rates.rate(topic)


def _rate(before: Mapping[int, int], after: Mapping[int, int], seconds: float) -> float | None:
    risen = [end - before[partition] for partition, end in after.items() if partition in before]
    # A high watermark never falls; where it did, this is another topic of the same name.
    if not risen or min(risen) < 0:
        return None
    return sum(risen) / seconds

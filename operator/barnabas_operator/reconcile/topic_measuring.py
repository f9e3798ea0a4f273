"""Sizes and rates of one cluster's topics, asked for now and then and not in every pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from barnabas_operator.gateway.kafka_topics import TopicMeasures
from barnabas_operator.reconcile.message_rates import MessageRates
from barnabas_operator.reconcile.topic_state import ObservedTopic


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
        """Measure, unless that was done a moment ago and nothing is new."""
        ids = {name: topic.topic_id for name, topic in topics.items()}
        is_new = any(self._ids.get(name) != topic_id for name, topic_id in ids.items())
        if not topics or not (is_new or self._rates.is_due(now)):
            return
        measures = await measurer.measure(topics)
        self._rates.update(now, measures.end_offsets)
        self._sizes_bytes = {name: measures.sizes_bytes.get(name, 0) for name in topics}
        self._ids = ids

    def size_bytes(self, topic: str) -> int | None:
        """All replicas together, None where it was not measured."""
        return self._sizes_bytes.get(topic)

    def rate(self, topic: str) -> float | None:
        """Messages per second, None while not known."""
        return self._rates.rate(topic)

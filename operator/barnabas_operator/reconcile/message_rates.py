"""Messages per second of topics, from how far their high watermarks have risen. Pure.

Over a short time a rate says little, so it is taken over at least `WINDOW_SECONDS`; until the first
one is known, and when a topic was made anew, there is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

WINDOW_SECONDS = 20.0

EndOffsets = Mapping[str, Mapping[int, int]]


@dataclass(slots=True)
class MessageRates:
    """What is remembered of one cluster from pass to pass."""

    _measured_at: float | None = None
    _end_offsets: EndOffsets = field(default_factory=dict)
    _rates: dict[str, float] = field(default_factory=dict)

    def is_due(self, now: float) -> bool:
        """Whether measuring again would give new rates."""
        return self._measured_at is None or now - self._measured_at >= WINDOW_SECONDS

    def update(self, now: float, end_offsets: EndOffsets) -> None:
        """Take a measure at `now`, in seconds of a monotonic clock."""
        if not self.is_due(now):
            # The window stays open, except for topics that were not there when it was opened.
            known = self._end_offsets
            self._end_offsets = {
                **known,
                **{topic: ends for topic, ends in end_offsets.items() if topic not in known},
            }
            return
        if self._measured_at is not None:
            seconds = now - self._measured_at
            self._rates = {
                topic: rate
                for topic, ends in end_offsets.items()
                if (rate := _rate(self._end_offsets.get(topic), ends, seconds)) is not None
            }
        self._measured_at = now
        self._end_offsets = end_offsets

    def rate(self, topic: str) -> float | None:
        """Messages per second, None while not known."""
        return self._rates.get(topic)


def _rate(
    before: Mapping[int, int] | None, after: Mapping[int, int], seconds: float
) -> float | None:
    if before is None:
        return None
    risen = [end - before[partition] for partition, end in after.items() if partition in before]
    # A high watermark never falls; where it did, this is another topic of the same name.
    if not risen or min(risen) < 0:
        return None
    return sum(risen) / seconds

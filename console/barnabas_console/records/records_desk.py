"""`RecordsDesk`: what all readings and writings of records of one console share.

Not here: HTTP (`barnabas_console.api.records`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from barnabas_client.env import Clock
from barnabas_console.records.decoding import AUTO, DecodingRules
from barnabas_console.records.filters import RecordFilter, parse_filter
from barnabas_console.records.frontier import Direction
from barnabas_console.records.masking import MaskRules
from barnabas_console.records.places import parse_place
from barnabas_console.records.reading_budget import ReadingBudget
from barnabas_console.records.topic_reading import ReadingChoices
from barnabas_console.records.topic_tails import TopicTails

_PARTITION_MAX: Final = (1 << 31) - 1
_PARTITIONS_MAX: Final = 500


class RecordsDesk:
    """Rules of decoding and masking, the budget of reading, the tails."""

    def __init__(self, decoding: DecodingRules, masks: MaskRules, clock: Clock) -> None:
        self.decoding = decoding
        self.masks = masks
        self.clock = clock
        self.budget = ReadingBudget(clock)
        self.tails = TopicTails(self.budget, clock)

    def choices(
        self, topic: str, wanted: Mapping[str, Any], *, at: str = "newest"
    ) -> ReadingChoices:
        """What somebody asks for, by the names of the API; `at` is where it begins otherwise.

        Raises: ValueError for what cannot be.
        """
        place = parse_place(str(wanted.get("at") or at), self.clock.wall_ms())
        mask = self.masks.for_topic(topic)
        # Of a masked side the format is not chosen: another one might show what is behind it.
        key_format = AUTO if mask.key else str(wanted.get("key_format") or AUTO)
        value_format = AUTO if mask.touches_value else str(wanted.get("value_format") or AUTO)
        direction = wanted.get("direction")
        return ReadingChoices(
            topic=topic,
            partitions=_partitions(wanted.get("partition")),
            place=place,
            direction=Direction(direction) if direction else place.direction,
            is_committed_only=_is_true(wanted.get("committed")),
            decoding=self.decoding.for_topic(topic, key_format, value_format),
            mask=mask,
        )

    def filter(self, wanted: Mapping[str, Any]) -> RecordFilter:
        """The filter that somebody typed. Raises: FilterError."""
        return parse_filter(str(wanted.get("filter") or ""), self.clock.wall_ms())


def _partitions(written: Any) -> frozenset[int] | None:
    if written in (None, "", []):
        return None
    parts = written if isinstance(written, list) else str(written).split(",")
    numbers = set()
    for part in parts[: _PARTITIONS_MAX + 1]:
        text = str(part)
        if (
            not (text.isascii() and text.isdigit() and len(text) <= 10)
            or int(text) > _PARTITION_MAX
        ):
            raise ValueError(f"'{text[:40]}' is no partition")
        numbers.add(int(text))
    if len(numbers) > _PARTITIONS_MAX:
        raise ValueError(f"at most {_PARTITIONS_MAX} partitions at once")
    return frozenset(numbers)


def _is_true(written: Any) -> bool:
    return written is True or written in ("true", "1")

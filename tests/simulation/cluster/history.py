"""What clients of a cluster asked for, were told and saw; whoever contradicts it is found out.

Adds to the history of a single broker what several readers see at the same time: whatever one has
read at an offset, all read there for ever.
"""

from collections import Counter
from dataclasses import dataclass, field

from barnabas_protocol.records.record import Record
from tests.simulation.history import Append, HistoryError, Partition, Topic

__all__ = ["Append", "Commit", "History", "HistoryError", "Partition", "Topic"]


@dataclass(eq=False)
class Sight:
    """What any reader has seen of a partition, by offset."""

    values: dict[int, bytes] = field(default_factory=dict)
    high_watermark: int = 0


@dataclass(eq=False)
class Commit:
    """A committed offset: the one acknowledged last, or one whose fate nobody knows."""

    acknowledged: int = -1
    # Still on their way, perhaps: they may take effect at any time, or never.
    uncertain: list[int] = field(default_factory=list)

    def ask(self, offset: int) -> None:
        """It is about to be sent."""
        self.uncertain.append(offset)

    def acknowledge(self, offset: int) -> None:
        """It was answered, perhaps later than a higher one of another member that came after."""
        self.uncertain.remove(offset)
        self.acknowledged = max(self.acknowledged, offset)

    def check(self, found: int, what: str) -> None:
        """Raises: HistoryError where what was found was neither acknowledged nor may be it."""
        if found != self.acknowledged and found not in self.uncertain:
            raise HistoryError(
                f"{what} is {found} instead of {self.acknowledged} or one of {self.uncertain}"
            )


class History:
    """All that happened."""

    def __init__(self) -> None:
        self.topics: dict[str, Topic] = {}
        self.sights: dict[tuple[str, int], Sight] = {}
        self.commits: dict[tuple[str, str, int], Commit] = {}
        self.producer_ids: set[int] = set()
        # Such a request may still be on its way, and make the topic again after it was deleted.
        self.creates_unanswered: Counter[str] = Counter()
        # Topics that come and go, or lose records: who uses them checks them.
        self.checked_apart: set[str] = set()

    def ask_append(self, topic: str, partition: int, append: Append) -> None:
        """A batch is about to be sent for the first time."""
        self.topics[topic].partitions[partition].appends.append(append)

    def new_producer(self, producer_id: int) -> None:
        """An id was given out. Raises: HistoryError for the second time."""
        if producer_id in self.producer_ids:
            raise HistoryError(f"producer id {producer_id} was given out twice")
        self.producer_ids.add(producer_id)

    def saw(self, topic: str, partition: int, records: list[Record]) -> None:
        """A reader has got records. Raises: HistoryError where another one got others."""
        sight = self.sights.setdefault((topic, partition), Sight())
        for record in records:
            value = record.value or b""
            known = sight.values.setdefault(record.offset, value)
            if known != value:
                raise HistoryError(
                    f"{topic}-{partition} has {value!r} at {record.offset}, it had {known!r}"
                )

    def check_seen(self, topic: str, partition: int, records: list[Record]) -> None:
        """Hold all that is there in the end against all that was ever seen."""
        contents = {record.offset: record.value or b"" for record in records}
        sight = self.sights.get((topic, partition), Sight())
        for offset, value in sight.values.items():
            if contents.get(offset) != value:
                raise HistoryError(
                    f"{topic}-{partition}: a reader saw {value!r} at {offset},"
                    f" where {contents.get(offset)!r} is now"
                )

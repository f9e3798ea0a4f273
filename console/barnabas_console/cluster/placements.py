"""Who has which partition, of all topics, in as little memory as it can be (CON-111). Pure.

Most partitions have one of a few sets of replicas, so equal ones are one object, and a partition is
a number in an array: ten thousand topics of three partitions take a quarter of a MiB.
"""

from __future__ import annotations

import sys
from array import array
from typing import NamedTuple

from barnabas_client.admin.values.topics import TopicDescription


class Placement(NamedTuple):
    """Leader, replicas and in-sync replicas of a partition; without a leader None."""

    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


Held = tuple[str, int, Placement]
"""Topic, number and placement of a partition. A plain tuple: of a broker there are thousands."""

_UNTOLD = Placement(None, (), ())
"""Of a partition whose topic was told of without it."""


class Placements:
    """The placements of the topics that were added."""

    def __init__(self) -> None:
        self._topics: list[str] = []
        self._partition_counts = array("i")
        # All partitions of the first topic, then those of the next: which of the placements.
        self._numbers = array("I")
        self._placements = [_UNTOLD]
        self._number_of = {_UNTOLD: 0}

    def add(self, topic: TopicDescription) -> None:
        """Take a topic; partitions that are not told of are left out."""
        count = max(topic.partitions, default=-1) + 1
        self._topics.append(sys.intern(topic.name))
        self._partition_counts.append(count)
        for number in range(count):
            one = topic.partitions.get(number)
            self._numbers.append(
                0
                if one is None
                else self._number(
                    Placement(one.leader_id, tuple(one.replica_ids), tuple(one.in_sync_replica_ids))
                )
            )

    def held_by(self, node_id: int, text: str = "") -> list[Held]:
        """The partitions that a broker has a replica of, of topics with a text in their names.

        In the order in which topics were added, which is that of their names.
        """
        sought = text.casefold()
        held = [node_id in one.replicas for one in self._placements]
        found: list[Held] = []
        first = 0
        for topic, count in zip(self._topics, self._partition_counts, strict=True):
            if not sought or sought in topic.casefold():
                found += [
                    (topic, partition, self._placements[number])
                    for partition, number in enumerate(self._numbers[first : first + count])
                    if held[number]
                ]
            first += count
        return found

    def _number(self, placement: Placement) -> int:
        number = self._number_of.get(placement)
        if number is None:
            number = self._number_of[placement] = len(self._placements)
            self._placements.append(placement)
        return number

"""What the group coordinator knows of topics: which one a name stands for.

A name may be used again, an id never is. A committed offset belongs to the topic that had the name
when it was committed. Source: KIP-516; OffsetCommitValue 4 has the id in a tag.
"""

from __future__ import annotations

from typing import Protocol

from barnabas_broker.coordinator.group.settings import OFFSETS_TOPIC
from barnabas_protocol.ids import ZERO_UUID

# The topic of an offset without an id (older releases) whose topic was not there when it was
# loaded: whatever gets the name later is another topic.
NO_TOPIC = b"\xff" * 16


class Topics(Protocol):
    """The topics of the newest metadata image that this broker has."""

    def topic_id(self, name: str) -> bytes | None:
        """Return the id of the topic of that name; None if there is none."""
        ...

    def partition_count(self, name: str) -> int:
        """Return how many partitions the topic has; 0 if there is none."""
        ...


class AnyTopics:
    """Every topic there is, with any partition and no id: where no metadata is at hand."""

    def __init__(self, offsets_partition_count: int = 50) -> None:
        self._offsets_partition_count = offsets_partition_count

    def topic_id(self, name: str) -> bytes | None:
        """Return zero: the id is not known."""
        return ZERO_UUID

    def partition_count(self, name: str) -> int:
        """Return more than anybody asks for, except for the coordinators' own topic."""
        return self._offsets_partition_count if name == OFFSETS_TOPIC else 2**31


def is_of(committed_id: bytes, current_id: bytes | None) -> bool:
    """Whether an offset may be of the topic that has its name now, or of none that is there."""
    return (
        current_id is None or committed_id == current_id or ZERO_UUID in (committed_id, current_id)
    )


def bound_id(current_id: bytes | None) -> bytes:
    """Return which topic a loaded offset without an id belongs to: the one that is there now."""
    return NO_TOPIC if current_id is None else current_id

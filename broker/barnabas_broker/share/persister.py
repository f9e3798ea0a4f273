"""What keeps the state of share partitions: the interface to the share coordinators.

Not here: who implements it (`coordinator/share/`), what the states mean (share partitions).
Source: SHR-25, SHR-27.

Invariant: each method is done when its outcome is committed. Whoever calls one has no state of the
coordinator, and so says in each call under which epochs it speaks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from barnabas_protocol.ids import Uuid, uuid_from_text, uuid_to_text

_INT32_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class SharePartitionKey:
    """A partition of a topic as one share group reads it; its text is the coordinator key."""

    group_id: str
    topic_id: Uuid
    partition: int

    def __str__(self) -> str:
        """Return `group:topicId:partition`, the topic id as Kafka writes it."""
        return f"{self.group_id}:{uuid_to_text(self.topic_id)}:{self.partition}"

    @classmethod
    def from_text(cls, text: str) -> SharePartitionKey:
        """Return the key of a text; the group may have colons in it.

        Raises: ValueError for any other text.
        """
        rest, _, number = text.rpartition(":")
        group_id, _, topic_id = rest.rpartition(":")
        is_number = number.isascii() and number.isdecimal() and len(number) <= 10
        if not group_id or not is_number or int(number) > _INT32_MAX:
            raise ValueError(f"no key of a share partition: {text!r}")
        return cls(group_id, uuid_from_text(topic_id), int(number))


@dataclass(frozen=True, slots=True)
class StateBatch:
    """Offsets, first to last inclusive, in one state and with one delivery count."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


@dataclass(frozen=True, slots=True)
class ShareState:
    """What is kept of a share partition; start offset -1: never read."""

    state_epoch: int
    start_offset: int
    batches: tuple[StateBatch, ...]


class ShareStateSummary(NamedTuple):
    """A share partition without its batches; start offset -1: nothing is kept of it."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int


class SharePersister(Protocol):
    """Keeps the state of share partitions in a coordinator's log.

    Each method raises KafkaError with the code that the coordinator responded with, after the
    repetitions of SHR-27.
    """

    async def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> None:
        """Begin anew at the offset, under this state epoch. Raises: 124 for a lower one."""
        ...

    async def read(self, key: SharePartitionKey, leader_epoch: int) -> ShareState:
        """Return the state and fence older leaders. Raises: 42 if nothing is kept, 74."""
        ...

    async def write(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
    ) -> None:
        """Merge batches into the state; start offset -1 leaves it. Raises: 42, 74, 124."""
        ...

    async def delete(self, key: SharePartitionKey) -> None:
        """Forget the share partition; that there is none is success."""
        ...

    async def summary(self, key: SharePartitionKey) -> ShareStateSummary:
        """Return epochs, start offset and count; start offset -1 if nothing is kept."""
        ...

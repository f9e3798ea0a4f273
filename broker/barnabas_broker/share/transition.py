"""An acknowledgement whose write is under way, and what is written.

Source: SHR-17. Not here: the offsets that it changes (`in_flight.py`), and who writes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from barnabas_broker.share.persister import StateBatch
from barnabas_protocol.errors import KafkaError


class Transition:
    """The acknowledgement of some offsets, between the change in memory and the written one."""

    __slots__ = ("first_offset", "last_offset", "on_done")

    def __init__(self, first_offset: int, last_offset: int) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        # Called once, with the error of the write or None.
        self.on_done: Callable[[KafkaError | None], None] = lambda _: None

    def include(self, first_offset: int, last_offset: int) -> None:
        """Let it reach over further offsets."""
        self.first_offset = min(self.first_offset, first_offset)
        self.last_offset = max(self.last_offset, last_offset)


@dataclass(frozen=True, slots=True)
class StateWrite:
    """What one write to the share coordinator contains, and the transitions that wait for it."""

    start_offset: int
    delivery_complete_count: int
    batches: Sequence[StateBatch]
    transitions: Sequence[Transition]

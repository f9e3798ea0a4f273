"""The callbacks of a program for changes of its assigned partitions.

Not here: when they are called (`group/rebalance_callbacks.py`).

Source: Kafka's ConsumerRebalanceListener, KIP-429 (lost is not revoked), CON-11.
Invariants: callbacks run within the program's own calls (poll, iteration, close), one at a time,
and no record is returned meanwhile. An error in one is raised from that call, after the rebalance
has gone on without it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import TypeAlias

from barnabas_protocol.ids import TopicPartition

Callback: TypeAlias = Callable[[Collection[TopicPartition]], Awaitable[None] | None]


class RebalanceListener:
    """Derive from it and override what matters; each method may be plain or `async`."""

    def on_revoked(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        """Finish work on these and commit: they are this member's until this returns."""
        return None

    def on_assigned(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        """These are new, without a record returned so far. Called after every rebalance."""
        return None

    def on_lost(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        """These may be others' by now: nothing can be committed. The default is `on_revoked`."""
        return self.on_revoked(partitions)

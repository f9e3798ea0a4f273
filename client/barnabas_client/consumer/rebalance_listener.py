"""What a program is told when its share of the partitions changes.

Not here: when it is called (`group/listener_calls.py`).

Source: Kafka's ConsumerRebalanceListener, KIP-429 (lost is not revoked), CON-11 of behaviour.md.
Invariants: callbacks run within the program's own calls (poll, iteration, close), one at a time,
and no record is handed out meanwhile. An error in one is raised from that call, after the
rebalance has gone on without it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import TypeAlias

from barnabas_protocol.ids import TopicPartition

Callback: TypeAlias = Callable[[Collection[TopicPartition]], Awaitable[None] | None]


class RebalanceListener:
    """Derive from it and override what matters; each method may be plain or `async`."""

    def on_revoked(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        """Finish work on these and commit: they still are this member's, and no longer after."""
        return None

    def on_assigned(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        """These are new; nothing of them has been handed out. Called after every rebalance."""
        return None

    def on_lost(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        """Others may have these by now: nothing can be committed. The default is `on_revoked`."""
        return self.on_revoked(partitions)

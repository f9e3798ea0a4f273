"""Who refuses connections, as the metadata log and the controller want to know it.

A node that refuses has no process any more: it is replaced as a leader, and fenced as a broker,
sooner than one that is silent. Not here: the probing (`network.reachability`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class ConnectionRefusals(Protocol):
    """Who refuses connections: `network.reachability`."""

    on_refused_change: list[Callable[[int], None]]

    def suspect(self, node_id: int) -> None:
        """A connection with this node was lost: find out whether it refuses new ones."""
        ...

    def refused_since_ms(self, node_id: int) -> int | None:
        """Since when, on the monotonic clock; None where it does not refuse."""
        ...

    def forget(self, node_id: int) -> None:
        """Stop to ask: the node was heard of, or is no more."""
        ...


class NoConnectionRefusals:
    """Nobody is ever known to refuse: for a node without others."""

    def __init__(self) -> None:
        self.on_refused_change: list[Callable[[int], None]] = []

    def suspect(self, node_id: int) -> None:
        """Nothing is found out."""

    def refused_since_ms(self, node_id: int) -> int | None:
        """Nobody refuses."""
        return None

    def forget(self, node_id: int) -> None:
        """Nothing was remembered."""

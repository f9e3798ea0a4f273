"""Connections that are not through with their handshake or log-in, counted by address and in all.

Counts and decides; who closes what is refused is the listener. One object serves all listeners of
clients, another that of the brokers, whom clients may not shut out. Of IPv6 an address is a network
of 64 bits: who has one has all of its addresses.

Source: SEC-8.
"""

from __future__ import annotations

from barnabas_broker.network.host_counts import HostCounts, owner_of


class HalfOpenConnections:
    """How many there are, and how many there may be."""

    __slots__ = ("_counts", "per_ip_max", "total_max")

    def __init__(self, total_max: int, per_ip_max: int) -> None:
        self.total_max = total_max
        self.per_ip_max = per_ip_max
        self._counts = HostCounts()

    @property
    def total(self) -> int:
        """How many there are."""
        return self._counts.total

    def enter(self, host: str) -> str | None:
        """Count one in; returns instead which limit forbids it, if one does."""
        host = owner_of(host)
        if self.total >= self.total_max:
            return "half-open-connections"
        if self._counts.of(host) >= self.per_ip_max:
            return "half-open-connections-per-ip"
        self._counts.enter(host)
        return None

    def leave(self, host: str) -> None:
        """Count one out that had entered: it has logged in, or it is closed."""
        self._counts.leave(owner_of(host))

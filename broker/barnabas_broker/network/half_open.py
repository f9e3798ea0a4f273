"""Connections that are not through with their handshake or log-in, counted by address and in all.

Counts and decides; who closes what is refused is the listener. One object serves all listeners of
clients, another that of the brokers, whom clients may not shut out.

Source: SEC-8.
"""

from __future__ import annotations


class HalfOpenConnections:
    """How many there are, and how many there may be."""

    __slots__ = ("_by_host", "per_ip_max", "total", "total_max")

    def __init__(self, total_max: int, per_ip_max: int) -> None:
        self.total_max = total_max
        self.per_ip_max = per_ip_max
        self.total = 0
        self._by_host: dict[str, int] = {}  # only addresses with such a connection

    def enter(self, host: str) -> str | None:
        """Count one in; returns instead which limit forbids it, if one does."""
        if self.total >= self.total_max:
            return "half-open-connections"
        count = self._by_host.get(host, 0)
        if count >= self.per_ip_max:
            return "half-open-connections-per-ip"
        self._by_host[host] = count + 1
        self.total += 1
        return None

    def leave(self, host: str) -> None:
        """Count one out that had entered: it has logged in, or it is closed."""
        self.total -= 1
        count = self._by_host[host] - 1
        if count:
            self._by_host[host] = count
        else:
            del self._by_host[host]

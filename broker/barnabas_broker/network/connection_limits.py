"""How many connections there may be: in all, and from one address; and who knows how fast.

Counts and decides; closing is the session's. One object serves all listeners of a broker.

Source: NET-4; Kafka's max.connections, max.connections.per.ip and its overrides.
"""

import ipaddress
from collections.abc import Mapping
from typing import Any

from barnabas_broker.network.connection_rates import ConnectionRates
from barnabas_broker.network.host_counts import HostCounts

UNLIMITED = 2**31 - 1


def describe_peer(peer_name: Any) -> tuple[str, str]:
    """The host and the "host:port" of what a transport calls its peer.

    An IPv4 address that came through an IPv6 socket is written as IPv4, so that it is one address
    for the limits and the log alike.
    """
    if not isinstance(peer_name, tuple) or len(peer_name) < 2:
        return "", str(peer_name or "unknown")
    host = normal_address(str(peer_name[0]))
    text = f"[{host}]" if ":" in host else host
    return host, f"{text}:{peer_name[1]}"


def normal_address(host: str) -> str:
    """One spelling for each address; what is not an address stays as it is."""
    if ":" not in host:
        return host
    try:
        address = ipaddress.IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    mapped = address.ipv4_mapped
    return str(mapped if mapped is not None else address)


class ConnectionLimits:
    """Counts connections and refuses those that are too many."""

    __slots__ = ("_counts", "_overrides", "connections_max", "per_ip_max", "rates")

    def __init__(
        self,
        connections_max: int = UNLIMITED,
        per_ip_max: int = UNLIMITED,
        per_ip_overrides: Mapping[str, int] | None = None,
        rates: ConnectionRates | None = None,
    ) -> None:
        """`rates` are the quotas of new connections; None where there are never any."""
        self.rates = rates
        self._counts = HostCounts()
        self.update(connections_max, per_ip_max, per_ip_overrides or {})

    @property
    def total(self) -> int:
        """How many connections there are."""
        return self._counts.total

    def update(
        self, connections_max: int, per_ip_max: int, per_ip_overrides: Mapping[str, int]
    ) -> None:
        """Change the limits; connections that exist stay."""
        self.connections_max = connections_max
        self.per_ip_max = per_ip_max
        self._overrides = {normal_address(h): limit for h, limit in per_ip_overrides.items()}

    def from_host(self, host: str) -> int:
        """How many connections an address has now."""
        return self._counts.of(host)

    def enter(self, host: str) -> str | None:
        """Count a new connection; returns instead which limit forbids it, if one does."""
        if self.total >= self.connections_max:
            return "connections"
        if self._counts.of(host) >= self._overrides.get(host, self.per_ip_max):
            return "connections-per-ip"
        self._counts.enter(host)
        return None

    def leave(self, host: str) -> None:
        """Count a connection out that had entered."""
        self._counts.leave(host)

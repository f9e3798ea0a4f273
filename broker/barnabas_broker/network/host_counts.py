"""How many there are of something, in all and of each address; only addresses that have one."""

from __future__ import annotations

import ipaddress
from typing import Final

IPV6_PREFIX_BITS: Final = 64
"""What one customer or machine has of IPv6, and can take any address of."""


def owner_of(host: str) -> str:
    """What addresses of one owner have in common; what is no IPv6 address stays as it is.

    An address may begin with a slash, as those of members of groups do.
    """
    if ":" not in host:
        return host
    try:
        number = int(ipaddress.IPv6Address(host.removeprefix("/").partition("%")[0]))
    except ValueError:
        return host
    free_bits = 128 - IPV6_PREFIX_BITS
    return f"{ipaddress.IPv6Address(number >> free_bits << free_bits)}/{IPV6_PREFIX_BITS}"


class HostCounts:
    """Connections by address, say; who enters leaves once."""

    __slots__ = ("_by_host", "total")

    def __init__(self) -> None:
        self.total = 0
        self._by_host: dict[str, int] = {}

    def __len__(self) -> int:
        """How many addresses have one."""
        return len(self._by_host)

    def of(self, host: str) -> int:
        """How many an address has now."""
        return self._by_host.get(host, 0)

    def enter(self, host: str) -> None:
        """Count one in."""
        self.change(host, 1)

    def leave(self, host: str) -> None:
        """Count one out that had entered."""
        self.change(host, -1)

    def change(self, host: str, more: int) -> None:
        """Count so many in, or out where that is negative; who has none left is forgotten."""
        self.total += more
        count = self._by_host.get(host, 0) + more
        if count:
            self._by_host[host] = count
        else:
            self._by_host.pop(host, None)

    def empty(self) -> dict[str, int]:
        """Forget all; returns how many each address had."""
        counts, self._by_host, self.total = self._by_host, {}, 0
        return counts

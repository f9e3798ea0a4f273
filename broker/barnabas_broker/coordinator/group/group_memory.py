"""What groups make a broker remember, in bytes, over all of its shards: the texts of their clients.

A member, or an id that was given out and has not joined yet, counts with what it says about itself
and with `MEMBER_BYTES`. Who made a group is charged for all of its members. Not here: what one
member and one group may say (`settings`).

Invariant: what is counted for a group is taken back when the group goes.
"""

from __future__ import annotations

from typing import Final

from barnabas_broker.network.host_counts import HostCounts

MEMBER_BYTES: Final = 1024
"""A member's objects, its timer, and texts that are bounded elsewhere: its id and its client's."""


class BrokerGroupMemory:
    """Of all groups, and of those that were made from one host."""

    __slots__ = ("_by_host", "_bytes_max", "_bytes_per_host_max", "used_bytes")

    def __init__(self, bytes_max: int, bytes_per_host_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes_per_host_max = bytes_per_host_max
        self._by_host = HostCounts()
        self.used_bytes = 0

    def has_room(self, host: str, more: int) -> bool:
        """Whether groups of a host may have so much more remembered; an empty host is nobody's."""
        return self.used_bytes + more <= self._bytes_max and (
            not host or self._by_host.of(host) + more <= self._bytes_per_host_max
        )

    def change(self, host: str, more: int) -> None:
        """Count so much more, or less."""
        self.used_bytes += more
        if host:
            self._by_host.change(host, more)


class GroupMemory:
    """Of one group; it is part of the broker's while the group is there."""

    __slots__ = ("_all", "_host", "used_bytes")

    def __init__(self, group_id: str, host: str) -> None:
        self._all: BrokerGroupMemory | None = None
        self._host = host
        self.used_bytes = len(group_id)

    def change(self, more: int) -> None:
        """Count so much more, or less."""
        self.used_bytes += more
        if self._all is not None:
            self._all.change(self._host, more)

    def count_in(self, memory: BrokerGroupMemory) -> None:
        """Be part of what all groups have."""
        assert self._all is None
        self._all = memory
        memory.change(self._host, self.used_bytes)

    def count_out(self) -> None:
        """Be part of it no more."""
        assert self._all is not None
        self._all.change(self._host, -self.used_bytes)
        self._all = None

"""What transactional ids hold of a broker's memory, of all hosts and of each that has made some.

A client that invents ids, or adds every partition there is to each of its transactions, must
neither fill the memory nor take all ids from others, which would be refused for the days that an id
is remembered. Who made an id is known to the broker that saw it being made, until that stops.

Invariant: what a shard has counted is counted out again when its id goes, or all at `close`.
"""

from __future__ import annotations

from typing import Final

from barnabas_broker.network.host_counts import HostCounts, owner_of

PARTITIONS_FEW: Final = 16
"""A transaction of so many is always let in: ids are bounded themselves."""


class Holdings:
    """Those of all shards of one broker."""

    __slots__ = ("ids_of", "partition_count", "partitions_of")

    def __init__(self) -> None:
        self.partition_count = 0
        self.ids_of = HostCounts()
        self.partitions_of = HostCounts()


class ShardHoldings:
    """Those of one shard, counted in the broker's as well while it is active."""

    __slots__ = ("_hosts", "_ids_of", "_is_active", "_partition_count", "_partitions_of", "_total")

    def __init__(self, total: Holdings) -> None:
        self._total = total
        self._is_active = False
        self._hosts: dict[str, str] = {}
        self._partition_count = 0
        self._ids_of = HostCounts()
        self._partitions_of = HostCounts()

    def activate(self) -> None:
        """Count what is known in the broker's from now on."""
        self._is_active = True
        self._total.partition_count += self._partition_count

    def ids_of(self, host: str) -> int:
        """How many ids a host has made on this broker."""
        return self._total.ids_of.of(owner_of(host))

    def partitions_beside(self, transactional_id: str) -> tuple[int, int]:
        """How many partitions are in transactions: of all, and of the host that has made an id."""
        host = self._hosts.get(transactional_id)
        of_host = 0 if host is None else self._total.partitions_of.of(host)
        return self._total.partition_count, of_host

    def made(self, transactional_id: str, host: str) -> None:
        """Take note of who has made an id."""
        host = self._hosts[transactional_id] = owner_of(host)
        for counts in (self._ids_of, self._total.ids_of):
            counts.enter(host)

    def changed(self, transactional_id: str, partitions: int) -> None:
        """Take note that a transaction has so many partitions more, or fewer."""
        self._partition_count += partitions
        if not self._is_active:
            return
        self._total.partition_count += partitions
        host = self._hosts.get(transactional_id)
        if host is not None:
            for counts in (self._partitions_of, self._total.partitions_of):
                counts.change(host, partitions)

    def gone(self, transactional_id: str) -> None:
        """Forget an id, whose partitions have been counted out."""
        host = self._hosts.pop(transactional_id, None)
        if host is not None:
            for counts in (self._ids_of, self._total.ids_of):
                counts.leave(host)

    def close(self) -> None:
        """Count everything out."""
        if self._is_active:
            self._total.partition_count -= self._partition_count
        for mine, total in (
            (self._ids_of, self._total.ids_of),
            (self._partitions_of, self._total.partitions_of),
        ):
            for host, count in mine.empty().items():
                total.change(host, -count)
        self._partition_count, self._is_active = 0, False
        self._hosts.clear()

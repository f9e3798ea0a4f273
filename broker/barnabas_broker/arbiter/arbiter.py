"""The arbiter: one record in an external store, changed by compare-and-swap.

It names the leader of the control plane and the members of the metadata log; it is used at
failover and at changes of the members, never for a commit. This module is the record and the
interface of a store; the rules are in `election` and `decided_swap`, the stores in `local_file`,
`etcd` and `kubernetes_lease`.

Source: the rules of the control plane in `docs/formats/arbiter.md`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from enum import Enum
from typing import NamedTuple, Protocol


class Member(NamedTuple):
    """A voter of the metadata log: a node and a directory, so that a lost disk is none."""

    node_id: int
    directory_id: bytes


class LeaderListener(NamedTuple):
    """A listener of the leader that takes requests of brokers, by its name."""

    name: str
    host: str
    port: int


class Leader(NamedTuple):
    """Who leads and where it is reached.

    `listeners` are there only while a leader has more than one for brokers, which is how brokers
    change from one to another: each looks for the one that it speaks itself.
    """

    node_id: int
    host: str
    port: int
    listeners: tuple[LeaderListener, ...] = ()

    def address_by(self, listener: str) -> tuple[str, int]:
        """Where it is reached by the listener of this name, or by the one that it uses itself."""
        for one in self.listeners:
            if one.name == listener:
                return one.host, one.port
        return self.host, self.port


class ArbiterRecord(NamedTuple):
    """What the store holds."""

    cluster_id: str
    controller_epoch: int
    leader: Leader | None  # None after it has resigned
    members: tuple[Member, ...]
    renewed_ms: int  # the writer's wall clock; others only compare it with what they saw before
    # The history of the metadata, then those that it goes on from; none: an older release's record.
    histories: tuple[bytes, ...] = ()
    # Of each member, in their order: the epoch and end of what was committed and on its disk.
    ends: tuple[tuple[int, int], ...] = ()


class Stored(NamedTuple):
    """A record as read, with the token that a swap of it must name; no record yet is None."""

    record: ArbiterRecord | None
    token: int


class SwapOutcome(Enum):
    """What is known after a compare-and-swap."""

    STORED = "stored"
    CONFLICT = "conflict"
    UNKNOWN = "unknown"  # the response was lost: read back before anything else (rule 7)


class ArbiterError(Exception):
    """The store cannot be read, or what it holds is not an arbiter record."""


class Arbiter(Protocol):
    """A store for one record."""

    async def read(self) -> Stored:
        """The record as of now, never an older one. Raises: ArbiterError."""
        ...

    async def compare_and_swap(self, expected_token: int, record: ArbiterRecord) -> SwapOutcome:
        """Store the record if the token is still the one expected. Does not raise."""
        ...

    def watch(self) -> AsyncIterator[Stored]:
        """The record now, and again each time it was seen to change; ends with its task.

        Raises: ArbiterError where the store cannot be read any more; call again to go on.
        """
        ...

    async def close(self) -> None:
        """Let go of connections; safe at any time, and twice."""
        ...

"""Which partition a record goes to, if the caller does not choose one.

The default takes the key's hash as Java does, so that both send a key to one partition; records
without a key fill one partition's batch after the other. `RoundRobinPartitioner` and every callable
of the `Partitioner` protocol can be given as the setting `partitioner`.

Source: Kafka's murmur2 partitioning; KIP-480 (sticky) and KIP-794 (switch by bytes, prefer short
queues). Instead of KIP-794's table over all partitions two of them are drawn and the one with the
shorter queue is taken, which balances as well and costs the same for any number of partitions.

Invariants: the hash of a key depends on nothing but the key and the number of partitions, also of
those without a leader; what is remembered of keys is bounded.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar

from barnabas_protocol.hashing import murmur2

_POSITIVE: Final = 0x7FFFFFFF
_T = TypeVar("_T")


class Partitioner(Protocol):
    """Chooses a partition; any function of this shape will do."""

    def __call__(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partition_count: int,
        available: Sequence[int],
        /,
    ) -> int:
        """The partition, from 0 on; `available` are those that have a leader, maybe none."""
        ...


def partition_of_key(key: bytes, partition_count: int) -> int:
    """Where Java's default partitioner sends this key (PRD-3)."""
    return (murmur2(key) & _POSITIVE) % partition_count


class RoundRobinPartitioner:
    """One partition after the other, from a random start, whether or not there is a key.

    Partitions without a leader are left out while others have one (PRD-3, classic).
    """

    def __init__(self, randomness: random.Random | None = None) -> None:
        self._random = randomness or random.Random()
        self._next: dict[str, int] = {}

    def __call__(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partition_count: int,
        available: Sequence[int],
    ) -> int:
        """The next one of the topic."""
        turn = self._next.get(topic)
        if turn is None:
            turn = self._random.randrange(partition_count)
        self._next[topic] = turn + 1
        return available[turn % len(available)] if available else turn % partition_count


def choose_sticky(
    randomness: random.Random, candidates: Sequence[_T], queue_length: Callable[[_T], int]
) -> _T:
    """The next partition to fill: of two that are drawn the one with the shorter queue."""
    count = len(candidates)
    if count == 1:
        return candidates[0]
    first = int(randomness.random() * count)
    # A different one, so that a slow broker's partition never wins against itself.
    second = int(randomness.random() * (count - 1))
    if second >= first:
        second += 1
    one, other = candidates[first], candidates[second]
    return other if queue_length(other) < queue_length(one) else one

"""The order in which Java's hash maps and sets iterate, which Kafka's assignors follow.

Where several results are equally good, Kafka's `uniform` gives the one that this order leads to,
and groups that move here from Kafka keep their assignment. Source: behaviour.md CG-11; the class
documentation of `HashMap` for load factor and capacity. Not here: buckets that became trees, whose
order differs only among keys of one bucket.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TypeVar

from barnabas_protocol.hashing import java_string_hash

Key = TypeVar("Key")

CAPACITY_MIN = 16
# Ids of members are hashed again with every assignment.
HASHES_KEPT = 65_536


def grown_capacity(count: int) -> int:
    """Return the capacity of a map that so many keys were put into one by one."""
    capacity = CAPACITY_MIN
    while count > capacity * 3 // 4:
        capacity *= 2
    return capacity


def copied_capacity(count: int) -> int:
    """Return the capacity of a set that was made of a collection of that size."""
    needed = max(int(count / 0.75) + 1, CAPACITY_MIN)
    return 1 << (needed - 1).bit_length()


def in_hash_order(keys: Iterable[Key], hash_of: Callable[[Key], int], capacity: int) -> list[Key]:
    """Return the keys by their buckets; those of one bucket in the order given."""

    def bucket(key: Key) -> int:
        value = hash_of(key) & 0xFFFFFFFF
        return (value ^ (value >> 16)) & (capacity - 1)

    return sorted(keys, key=bucket)


@lru_cache(maxsize=HASHES_KEPT)
def text_hash(text: str) -> int:
    """Return the hash of a string."""
    return java_string_hash(text)


def uuid_hash(topic_id: bytes) -> int:
    """Return the hash of Kafka's `Uuid`."""
    both = int.from_bytes(topic_id[:8], "big") ^ int.from_bytes(topic_id[8:], "big")
    return (both >> 32) ^ (both & 0xFFFFFFFF)


def signed_halves(topic_id: bytes) -> tuple[int, int]:
    """Return what Kafka's `Uuid` is compared by: two signed numbers."""
    return (
        int.from_bytes(topic_id[:8], "big", signed=True),
        int.from_bytes(topic_id[8:], "big", signed=True),
    )


def members_in_order(member_ids: Iterable[str]) -> list[str]:
    """Return member ids as a map of them iterates."""
    ids = list(member_ids)
    return in_hash_order(ids, text_hash, grown_capacity(len(ids)))


def partitions_in_order(partitions: Iterable[int]) -> list[int]:
    """Return partitions as a set that was made of their sorted list iterates."""
    ordered = sorted(partitions)
    return in_hash_order(ordered, lambda partition: partition, copied_capacity(len(ordered)))

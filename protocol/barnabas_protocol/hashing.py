"""The hash functions that clients and brokers must agree on.

Source: the definition of Java's String.hashCode; MurmurHash2 (Austin Appleby), seed 0x9747b28c as
Kafka's default partitioner uses it. Both results are signed 32-bit numbers, as Java prints them.
"""

from __future__ import annotations

import struct
from functools import lru_cache

MURMUR2_SEED = 0x9747B28C
MURMUR2_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF
HASHES_KEPT = 4096
KEPT_LENGTH_MAX = 128
"""Longer names are hashed each time, so that what is kept stays below a few megabytes."""


def murmur2(data: bytes) -> int:
    """The hash of a record's key; a partitioner takes `(murmur2(key) & 0x7fffffff) % count`."""
    size = len(data)
    tail = size & 3
    hashed = MURMUR2_SEED ^ size
    for word in struct.unpack(f"<{size >> 2}I", data[: size - tail]):
        mixed = word * MURMUR2_MULTIPLIER & _MASK
        mixed = (mixed ^ mixed >> 24) * MURMUR2_MULTIPLIER & _MASK
        hashed = (hashed * MURMUR2_MULTIPLIER & _MASK) ^ mixed
    if tail:
        hashed ^= int.from_bytes(data[size - tail :], "little")
        hashed = hashed * MURMUR2_MULTIPLIER & _MASK
    hashed = (hashed ^ hashed >> 13) * MURMUR2_MULTIPLIER & _MASK
    return _signed(hashed ^ hashed >> 15)


def java_string_hash(text: str) -> int:
    """Java's String.hashCode: over UTF-16 code units, so a character may count as two."""
    data = text.encode("utf-16-le", "surrogatepass")
    hashed = 0
    for unit in struct.unpack(f"<{len(data) >> 1}H", data):
        hashed = (hashed * 31 + unit) & _MASK
    return _signed(hashed)


def coordinator_partition(identifier: str, partition_count: int) -> int:
    """The partition of the internal topic that a group or transactional id lives in.

    The absolute value, with 0 for -2^31, which has none in 32 bits: not a mask of the sign bit.
    """
    is_short = len(identifier) <= KEPT_LENGTH_MAX
    hashed = _kept_hash(identifier) if is_short else java_string_hash(identifier)
    return 0 if hashed == -0x80000000 else abs(hashed) % partition_count


# Each request of a group or a producer names the same one: a step of Python for each character.
_kept_hash = lru_cache(maxsize=HASHES_KEPT)(java_string_hash)


def _signed(number: int) -> int:
    return number - 0x100000000 if number >= 0x80000000 else number

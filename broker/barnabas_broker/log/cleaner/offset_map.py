"""The newest offset of each key, for one round of compaction, in bounded memory.

Keys are kept as they are when shorter than a digest, and as a 16-byte BLAKE2b digest otherwise: two
keys colliding is then less likely than the disk lying, and a long key costs no more than a short
one.

Not here: reading the log (`compaction`). Source: REC-6, REC-7. Invariants: offsets are
put in rising order; everything in [start_offset, end_offset) was looked at.
"""

from __future__ import annotations

from hashlib import blake2b

DIGEST_BYTES = 16
# Measured on CPython 3.11 to 3.13: a dict slot at its load, a 16-byte key object, an int object.
BYTES_PER_KEY = 170
LOAD_FACTOR = 0.9


class OffsetMap:
    """Maps keys to their newest offset, up to as many keys as `memory_bytes` holds."""

    __slots__ = ("_offsets", "capacity", "end_offset", "start_offset")

    def __init__(self, memory_bytes: int, start_offset: int) -> None:
        self.capacity = max(int(memory_bytes * LOAD_FACTOR) // BYTES_PER_KEY, 1)
        self.start_offset = start_offset
        self.end_offset = start_offset
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def is_full(self) -> bool:
        """Whether no further key fits."""
        return len(self._offsets) >= self.capacity

    def put(self, key: bytes, offset: int) -> None:
        """Note that the record at `offset` has this key."""
        self._offsets[_short(key)] = offset

    def is_newest(self, key: bytes, offset: int) -> bool:
        """Return whether no later record, as far as the map reaches, has this key."""
        return offset >= self._offsets.get(_short(key), -1)


def _short(key: bytes) -> bytes:
    if len(key) < DIGEST_BYTES:
        return key
    return blake2b(key, digest_size=DIGEST_BYTES).digest()

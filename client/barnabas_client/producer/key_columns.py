"""The partitions of many keys at once: Kafka's hash over an Arrow column, in numpy.

Hashing a key in Python takes microseconds; here a word of all keys is mixed in at a time, which
takes some tens of nanoseconds for a short key. Needs pyarrow and numpy (extra `columnar`).

Source: `barnabas_protocol/hashing.py`, which the tests hold this against.
Invariants: the same partition as `partition_of_key` for every key.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from barnabas_protocol.hashing import MURMUR2_MULTIPLIER, MURMUR2_SEED

NO_PARTITION: Final = -1
_MULTIPLIER: Final = np.uint32(MURMUR2_MULTIPLIER)
_WORD_BYTES: Final = 4


def partitions_of_keys(keys: Any, partition_count: int) -> NDArray[np.int32]:
    """Where Java's default partitioner sends each key of a binary array; -1 for a null one."""
    if not len(keys):
        return np.zeros(0, np.int32)
    array = keys.cast(pa.binary()) if keys.type != pa.binary() else keys
    _, offsets_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[array.offset : array.offset + len(array) + 1]
    data = np.frombuffer(data_buffer or b"", np.uint8)
    hashes = _murmur2(data, offsets[:-1].astype(np.int64), np.diff(offsets))
    partitions = ((hashes & np.uint32(0x7FFFFFFF)) % np.uint32(partition_count)).astype(np.int32)
    if array.null_count:
        partitions[array.is_null().to_numpy(zero_copy_only=False)] = NO_PARTITION
    return partitions


def _murmur2(
    data: NDArray[np.uint8], starts: NDArray[np.int64], sizes: NDArray[np.int32]
) -> NDArray[np.uint32]:
    """The hash of what lies at each start, that many bytes long."""
    hashes = np.uint32(MURMUR2_SEED) ^ sizes.astype(np.uint32)
    word_counts = sizes // _WORD_BYTES
    active = np.arange(len(sizes))
    for word in range(int(word_counts.max())):
        active = active[word_counts[active] > word]
        at = starts[active] + word * _WORD_BYTES
        mixed = _little_endian(data, at, _WORD_BYTES) * _MULTIPLIER
        mixed = (mixed ^ (mixed >> np.uint32(24))) * _MULTIPLIER
        hashes[active] = (hashes[active] * _MULTIPLIER) ^ mixed
    tails = sizes % _WORD_BYTES
    tail_starts = starts + sizes - tails
    for tail in range(1, _WORD_BYTES):
        some = np.flatnonzero(tails == tail)
        rest = _little_endian(data, tail_starts[some], tail)
        hashes[some] = (hashes[some] ^ rest) * _MULTIPLIER
    hashes = (hashes ^ (hashes >> np.uint32(13))) * _MULTIPLIER
    return hashes ^ (hashes >> np.uint32(15))


def _little_endian(
    data: NDArray[np.uint8], at: NDArray[np.int64], byte_count: int
) -> NDArray[np.uint32]:
    """The number that begins at each position."""
    number = np.zeros(len(at), np.uint32)
    for index in range(byte_count):
        number |= data[at + index].astype(np.uint32) << np.uint32(8 * index)
    return number

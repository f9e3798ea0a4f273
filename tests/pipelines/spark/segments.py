"""Segments of a broker that does not run, changed as a failure would leave them."""

import struct
from pathlib import Path

_BASE_OFFSET_AND_LENGTH = struct.Struct(">qi")


def cut_segment(path: Path, offset: int) -> None:
    """Take away the batches from this base offset on, as if they had never been replicated."""
    data, position = path.read_bytes(), 0
    while position < len(data):
        base_offset, length = _BASE_OFFSET_AND_LENGTH.unpack_from(data, position)
        if base_offset >= offset:
            break
        position += _BASE_OFFSET_AND_LENGTH.size + length
    path.write_bytes(data[:position])

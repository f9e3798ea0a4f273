"""The four codecs of record batches: bytes in, bytes out, with a bound on what comes out.

Not here: which codec a batch has (its attributes say so, `batch.py`).

Source: Kafka's protocol guide; the LZ4 frame, zstd and gzip formats; snappy as Java's xerial stream
(blocks with their lengths) or, from librdkafka, one raw block without framing. Both are read, the
xerial stream is written, because Java reads nothing else from a broker of ours.

Invariants: never more than `limit_bytes` of output is kept, whatever the input promises; every
malformed input is a ParseError.

The libraries take 3 MiB, so they are loaded by the first batch that needs one; a broker, which may
be out of files by then, calls `load_codecs` when it starts.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from enum import IntEnum
from typing import Any

from barnabas_protocol.errors import ParseError
from barnabas_protocol.records.batch import Buffer

# A window bits argument of 16 + 15 makes zlib speak gzip with its largest window.
_GZIP_WINDOW = 31
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
# The block size of Java's snappy stream; a larger one would make its readers allocate more.
_XERIAL_BLOCK_BYTES = 32 * 1024
_ZSTD_CHUNK_BYTES = 256 * 1024
_INT32 = struct.Struct(">i")
_MEMBERS_MAX = 64
"""Gzip members or LZ4 frames in a row; every known writer makes one. A thousand took 11 ms."""
_BLOCKS_MAX = 64 * 1024
"""Blocks of a snappy stream, of 32 KiB each in every known writer."""
_BLOCK_BYTES_MIN = 1024  # of Java's snappy stream
_SMALL_BLOCKS_MAX = 16
_PIECE_BYTES_MIN = 4 * 1024
"""The first piece that a member is given. What it leaves over is copied, so pieces start small and
double while the member goes on: the work stays proportional to the data."""


class Compression(IntEnum):
    """The codec numbers of the attributes' lowest three bits."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class DecompressedTooLargeError(ParseError):
    """The records would take more memory than the reader allows."""


def load_codecs() -> None:
    """Load the libraries of all codecs now."""
    import cramjam  # noqa: F401
    import lz4.frame  # noqa: F401
    import zstandard  # noqa: F401


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """The records part as `codec` writes it; `level` in the codec's own scale, None = its usual.

    Raises: ValueError for a number that is no codec.
    """
    match codec:
        case Compression.NONE:
            return bytes(data)
        case Compression.GZIP:
            return zlib.compress(data, -1 if level is None else level, _GZIP_WINDOW)
        case Compression.SNAPPY:
            return _compress_snappy(data)
        case Compression.LZ4:
            return _compress_lz4(data, 0 if level is None else level)
        case Compression.ZSTD:
            return _compress_zstd(data, 3 if level is None else level)
    raise ValueError(f"no compression codec has the number {codec}")


def decompress(codec: int, data: Buffer, limit_bytes: int) -> bytes:
    """The records part in plain.

    Raises: ParseError for malformed data or an unknown codec; DecompressedTooLargeError if the
    result would exceed `limit_bytes`.
    """
    match codec:
        case Compression.NONE:
            return _bounded(bytes(data), limit_bytes)
        case Compression.GZIP:
            return _decompress_gzip(data, limit_bytes)
        case Compression.SNAPPY:
            return _decompress_snappy(data, limit_bytes)
        case Compression.LZ4:
            return _decompress_lz4(data, limit_bytes)
        case Compression.ZSTD:
            return _decompress_zstd(data, limit_bytes)
    raise ParseError(f"unknown compression codec {codec}", 0)


def _bounded(data: bytes, limit_bytes: int) -> bytes:
    if len(data) > limit_bytes:
        raise _too_large(limit_bytes)
    return data


def _too_large(limit_bytes: int) -> DecompressedTooLargeError:
    return DecompressedTooLargeError(f"records decompress to more than {limit_bytes} bytes", 0)


def _decompress_gzip(data: Buffer, limit_bytes: int) -> bytes:
    """One or several gzip members, concatenated."""
    return _decompress_members(data, limit_bytes, "gzip", lambda: zlib.decompressobj(_GZIP_WINDOW))


def _decompress_members(
    data: Buffer, limit_bytes: int, name: str, make: Callable[[], Any]
) -> bytes:
    """What decompressors of zlib's interface make of members that follow one another."""
    view = memoryview(data)
    parts: list[bytes] = []
    left, position = limit_bytes, 0
    for _ in range(_MEMBERS_MAX):
        member, piece_bytes = make(), _PIECE_BYTES_MIN
        while not member.eof:
            piece = view[position : position + piece_bytes]
            if not piece:
                raise ParseError(f"{name}: cut off", len(view))
            try:
                # One byte above the limit tells "exactly full" from "too much".
                part = member.decompress(piece, left + 1)
            except (zlib.error, RuntimeError, ValueError, EOFError) as error:
                raise ParseError(f"{name}: {error}", position) from None
            left -= len(part)
            if left < 0:
                raise _too_large(limit_bytes)
            parts.append(part)
            position += len(piece)
            piece_bytes *= 2
        position -= len(member.unused_data or b"")
        if position == len(view):
            return parts[0] if len(parts) == 1 else b"".join(parts)
    raise ParseError(f"{name}: more than {_MEMBERS_MAX} members", position)


def _compress_lz4(data: Buffer, level: int) -> bytes:
    """Independent blocks of 64 KiB and no content size: what Java's reader was made for."""
    import lz4.frame

    return bytes(
        lz4.frame.compress(
            data,
            compression_level=level,
            block_size=lz4.frame.BLOCKSIZE_MAX64KB,
            block_linked=False,
            store_size=False,
        )
    )


def _compress_zstd(data: Buffer, level: int) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(level=level).compress(data)


def _compress_snappy(data: Buffer) -> bytes:
    import cramjam

    view = memoryview(data)
    parts: list[bytes] = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts.append(_INT32.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def _decompress_snappy(data: Buffer, limit_bytes: int) -> bytes:
    view = memoryview(data)
    if len(view) < len(_XERIAL_HEADER) or view[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _decompress_snappy_block(view, 0, limit_bytes)
    parts: list[bytes] = []
    left, position = limit_bytes, len(_XERIAL_HEADER)
    while position < len(view):
        if len(parts) == _BLOCKS_MAX:
            raise ParseError(f"snappy: more than {_BLOCKS_MAX} blocks", position)
        if len(parts) > limit_bytes // _BLOCK_BYTES_MIN + _SMALL_BLOCKS_MAX:
            raise _too_large(limit_bytes)  # or it takes as long as if it were
        if position + 4 > len(view):
            raise ParseError("snappy: block length cut off", position)
        size = _INT32.unpack_from(view, position)[0]
        position += 4
        if not 0 <= size <= len(view) - position:
            raise ParseError(f"snappy: block of {size} bytes exceeds the data", position)
        parts.append(_decompress_snappy_block(view[position : position + size], position, left))
        left -= len(parts[-1])
        position += size
    return b"".join(parts)


def _decompress_snappy_block(block: memoryview, position: int, limit_bytes: int) -> bytes:
    """One raw block; its own promise of a size is checked before anything is allocated."""
    import cramjam

    try:
        if cramjam.snappy.decompress_raw_len(block) > limit_bytes:
            raise _too_large(limit_bytes)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise ParseError(str(error), position) from None


def _decompress_lz4(data: Buffer, limit_bytes: int) -> bytes:
    """One or several LZ4 frames, concatenated."""
    import lz4.frame

    return _decompress_members(data, limit_bytes, "lz4", lz4.frame.LZ4FrameDecompressor)


def _decompress_zstd(data: Buffer, limit_bytes: int) -> bytes:
    """One or several zstd frames, with or without a content size in the frame header.

    The library does not tell a frame without content size that is cut between two blocks from a
    whole one; the count of records does.
    """
    import zstandard

    parts: list[bytes] = []
    left = limit_bytes
    try:
        promised = zstandard.frame_content_size(data)
        if promised > limit_bytes:
            raise _too_large(limit_bytes)
        with zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True) as reader:
            # The first chunk is all of it, nearly always; memory grows with what really comes.
            chunk_bytes = promised if promised > 0 else max(_ZSTD_CHUNK_BYTES, 8 * len(data))
            while part := reader.read(min(chunk_bytes, left + 1)):
                left -= len(part)
                if left < 0:
                    raise _too_large(limit_bytes)
                parts.append(part)
                chunk_bytes = _ZSTD_CHUNK_BYTES
    except zstandard.ZstdError as error:
        raise ParseError(f"zstd: {error}", 0) from None
    if limit_bytes - left < promised:
        raise ParseError("zstd: cut off", len(data))
    return parts[0] if len(parts) == 1 else b"".join(parts)

"""Cuts a byte stream into frames; a large one is received straight into its own memory.

A frame is a signed 32-bit size in network byte order and that many bytes. The kernel writes into
memory that this gives it: one buffer shared by all connections of a client for what is small, the
frame's own for the rest of a large one. No sockets here, and no meaning of a frame's content.

Invariants:
- The memory of a frame that was handed out is never written to again.
- The shared buffer is used only between `buffer` and `received`, which a transport calls in one go.
- A size is a claim: memory beyond `TRUSTED_BYTES` is taken only as bytes arrive.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

SHARED_BYTES: Final = 256 * 1024
DIRECT_BYTES_MIN: Final = 32 * 1024
"""An incomplete frame above this size gets memory of its own at once."""
TRUSTED_BYTES: Final = 4 * 1024 * 1024

_SIZE: Final = struct.Struct(">i")
_TLS_RECORDS: Final = (b"\x15\x03", b"\x16\x03")


class FrameError(Exception):
    """The stream cannot be cut any further; `looks_like_tls` tells a probable reason."""

    def __init__(self, message: str, *, looks_like_tls: bool = False) -> None:
        super().__init__(message)
        self.looks_like_tls = looks_like_tls


class FrameReceiver:
    """One connection's stream: `buffer`, then `received`, which yields the complete frames."""

    __slots__ = ("_filled", "_frame_bytes_max", "_large", "_large_size", "_rest", "_shared")

    def __init__(self, shared: memoryview, frame_bytes_max: int) -> None:
        self._shared = shared
        self._frame_bytes_max = frame_bytes_max
        self._rest = b""  # the incomplete start of a small frame
        self._large: bytearray | None = None
        self._large_size = 0  # final; the memory may still be shorter
        self._filled = 0  # of the large frame, or of the shared buffer before new bytes

    def buffer(self) -> memoryview:
        """Where the next bytes are to be written."""
        if self._large is not None:
            return memoryview(self._large)[self._filled :]
        rest = self._rest
        self._filled = len(rest)
        if not rest:
            return self._shared
        self._shared[: len(rest)] = rest
        return self._shared[len(rest) :]

    def received(self, count: int) -> Iterator[memoryview]:
        """Cut off the frames that are complete after `count` more bytes.

        Raises: FrameError on a size that is negative or too large; the stream is then lost.
        """
        if self._large is not None:
            return self._received_large(self._large, count)
        return self._received_small(self._filled + count)

    def _received_large(self, large: bytearray, count: int) -> Iterator[memoryview]:
        self._filled += count
        if self._filled == self._large_size:
            self._large = None
            yield memoryview(large)
        elif self._filled == len(large):
            grown = bytearray(min(self._large_size, 2 * len(large)))
            grown[: len(large)] = large
            self._large = grown

    def _received_small(self, end: int) -> Iterator[memoryview]:
        shared = self._shared
        position = 0
        # All complete frames get one copy together: they are small, and often many.
        complete, refused = self._complete_until(end)
        chunk = memoryview(bytes(shared[:complete])) if complete else shared[:0]
        if refused is None:
            self._keep(complete, end)
        while position < complete:
            (size,) = _SIZE.unpack_from(chunk, position)
            position += 4 + size
            yield chunk[position - size : position]
        if refused is not None:
            raise self._refusal(refused, complete)

    def _complete_until(self, end: int) -> tuple[int, int | None]:
        """Where the last complete frame ends, and the impossible size that follows, if one does."""
        position = 0
        while end - position >= 4:
            (size,) = _SIZE.unpack_from(self._shared, position)
            if not 0 <= size <= self._frame_bytes_max:
                return position, size
            if end - position - 4 < size:
                break
            position += 4 + size
        return position, None

    def _keep(self, start: int, end: int) -> None:
        """Move what is incomplete out of the shared buffer."""
        self._rest = b""
        if start == end:
            return
        if end - start >= 4:
            (size,) = _SIZE.unpack_from(self._shared, start)
            if DIRECT_BYTES_MIN < size <= self._frame_bytes_max:
                arrived = end - start - 4
                self._large_size = size
                self._large = bytearray(min(size, max(TRUSTED_BYTES, 2 * arrived)))
                self._large[:arrived] = self._shared[start + 4 : end]
                self._filled = arrived
                return
        self._rest = bytes(self._shared[start:end])

    def _refusal(self, size: int, position: int) -> FrameError:
        start = bytes(self._shared[position : position + 2])
        if start in _TLS_RECORDS:
            return FrameError("what it sent is TLS", looks_like_tls=True)
        text = bytes(self._shared[position : position + 4])
        if text.isascii() and text.decode().isprintable():
            return FrameError(
                f"what it sent begins with {text.decode()!r}, so it is no Kafka broker: check host "
                "and port"
            )
        if size < 0:
            return FrameError(f"it sent a frame of negative size {size}")
        return FrameError(
            f"it sent a frame of {size} bytes, more than receive_message_max_bytes="
            f"{self._frame_bytes_max}"
        )

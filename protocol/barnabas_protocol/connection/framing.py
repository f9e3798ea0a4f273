"""Cuts a byte stream into frames, without copying the large ones.

A frame is a signed 32-bit size in network byte order and that many bytes. The kernel writes into
memory that this gives it: one buffer shared by all connections for what is small, the frame's own
buffer for the rest of a large one. No sockets here, and no meaning of a frame's content.

Invariants:
- A frame that was handed out is memory of its own: writable, never written to again from here.
- Nothing is allocated for a size that was not checked, and never more than eight times what has
  arrived (plus `trusted_bytes`): a size is a claim, not a promise. Of that the kernel commits the
  pages that bytes have arrived in: what is large is neither zeroed nor touched before.
- The shared buffer is only used between `buffer` and `received`, which a transport calls in one
  go; what must outlive that is copied out by `keep`. An idle connection holds no buffer.

Source: Kafka protocol guide, "Request/Response Size"; asyncio's BufferedProtocol.
"""

import contextlib
import mmap
import struct
import sys
from typing import Final

from barnabas_protocol.memory import unzeroed_memory

_SIZE: Final = struct.Struct(">i")
_HUGE_PAGES: Final[int | None] = getattr(mmap, "MADV_HUGEPAGE", None)
SHARED_BYTES: Final = 256 * 1024
SMALL_BYTES: Final = 16 * 1024
"""An incomplete frame up to this is kept and continued in the shared buffer."""
OWN_BYTES_MAX: Final = 4 * 1024 * 1024
"""Larger frames get pages of their own, which go back to the kernel with them."""
ZEROED_BYTES_MAX: Final = 32 * 1024
"""Zeroing more would commit memory for bytes that may never come."""
TRUSTED_BYTES: Final = 32 * 1024
TRUST_FACTOR: Final = 8
"""A frame's whole buffer is made once an eighth of it (or of OWN_BYTES_MAX) has arrived."""

_TLS_RECORDS: Final = (b"\x15\x03", b"\x16\x03")  # an alert, a handshake
_HTTP_STARTS: Final = (b"GET ", b"POST", b"PUT ", b"HEAD", b"HTTP")


class FrameError(Exception):
    """The stream cannot be cut any further.

    `reason` is a short constant, `detail` for humans; `start` is how the impossible frame begins.
    """

    def __init__(self, reason: str, detail: str, start: bytes = b"") -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail
        self.start = start

    @property
    def looks_like(self) -> str:
        """The protocol that the stream probably is instead: TLS, HTTP or nothing known."""
        if self.start[:2] in _TLS_RECORDS:
            return "TLS"
        return "HTTP" if self.start in _HTTP_STARTS else ""

    def __str__(self) -> str:
        """Return the detail, and what the stream probably is."""
        guess = self.looks_like
        return f"{self.detail} (this looks like {guess})" if guess else self.detail


class SharedBuffer:
    """Memory into which every connection of a loop receives, one at a time."""

    __slots__ = ("content", "view")

    def __init__(self, size: int = SHARED_BYTES) -> None:
        self.content = bytearray(size)
        self.view = memoryview(self.content)


class FrameReceiver:
    """One connection's side of receiving: `buffer`, `received`, `next_frame` until None, `keep`."""

    __slots__ = (
        "_large",
        "_large_filled",
        "_large_size",
        "_larger_bytes",
        "_larger_start",
        "_rest",
        "_shared",
        "_source",
        "_trusted_bytes",
        "_view",
        "end",
        "frame_bytes_max",
        "position",
    )

    def __init__(
        self,
        shared: SharedBuffer,
        frame_bytes_max: int,
        *,
        larger_bytes: int = 0,
        larger_start: bytes = b"",
        trusted_bytes: int = TRUSTED_BYTES,
    ) -> None:
        """Frames with a certain start may be larger, by `larger_bytes`.

        A peer that claims up to `trusted_bytes` is believed at once.
        """
        self.frame_bytes_max = frame_bytes_max
        self._larger_bytes = larger_bytes
        self._larger_start = larger_start
        self._trusted_bytes = trusted_bytes
        self._shared = shared.content
        self._view = shared.view
        self._source = shared.content  # what is being cut: the shared buffer or the rest
        self.position = 0  # up to here it has been cut; equal to `end` if all of it was
        self.end = 0
        self._rest: bytearray | None = None  # arrived, not yet cut, not in the shared buffer
        self._large: memoryview | None = None  # the frame that is being received directly
        self._large_filled = 0
        self._large_size = 0  # its final size; the buffer may still be shorter

    @property
    def held_bytes(self) -> int:
        """How much has arrived and waits here, between calls."""
        return self._large_filled + (self.end - self.position)

    @property
    def buffer_bytes(self) -> int:
        """The size of the memory that this connection has for itself, between calls."""
        large, rest = self._large, self._rest
        return (0 if large is None else len(large)) + (0 if rest is None else len(rest))

    def buffer(self) -> memoryview:
        """Where the next bytes are to be written."""
        if self._large is not None:
            return self._large[self._large_filled :]
        rest = self._rest
        if rest is None:
            return self._view
        length = self.end - self.position
        if length + SMALL_BYTES > len(self._shared):
            raise FrameError("reading-not-paused", f"{length} bytes wait already")
        self._view[:length] = memoryview(rest)[self.position : self.end]
        return self._view[length:]

    def received(self, count: int) -> None:
        """Take note of bytes that were written to what `buffer` gave."""
        if self._large is not None:
            self._large_filled += count
            if self._large_filled == len(self._large) < self._large_size:
                self._enlarge(self._large)
            return
        # Also right where bytes waited: `buffer` has put them in front of the new ones.
        self.end += count - self.position
        self.position = 0
        self._source = self._shared
        self._rest = None

    def next_frame(self) -> memoryview | None:
        """The next complete frame without its size; None where more must arrive first.

        Raises: FrameError on a size that is negative or too large; the stream is then lost.
        """
        if self._large is not None:
            if self._large_filled < self._large_size:
                return None
            frame, self._large = self._large, None
            self._large_filled = self._large_size = 0
            if len(frame) > self.frame_bytes_max:
                self._check_larger(frame)
            return frame
        start = self.position + 4
        if start > self.end:
            return None
        (size,) = _SIZE.unpack_from(self._source, self.position)
        end = start + size
        if 0 <= size <= self.frame_bytes_max + self._larger_bytes:
            if end > self.end:
                return None
            self.position = end
            frame = memoryview(self._source[start:end])  # a slice of a bytearray is the frame's own
            if size > self.frame_bytes_max:
                self._check_larger(frame)
            return frame
        raise self._impossible(size, bytes(self._source[self.position : start]))

    def _check_larger(self, frame: memoryview) -> None:
        if frame[: len(self._larger_start)] != self._larger_start:
            raise self._impossible(len(frame), b"")

    def _impossible(self, size: int, start: bytes) -> FrameError:
        if size < 0:
            return FrameError("negative-size", f"the frame size is {size}", start)
        detail = f"the frame size is {size}, more than the {self.frame_bytes_max} allowed"
        return FrameError("oversize", detail, start)

    def keep(self) -> int:
        """Move what was not cut out of the shared buffer; call it after the last `next_frame`.

        Returns `held_bytes`.
        """
        position, end, source = self.position, self.end, self._source
        left = end - position
        if left:
            if left >= 4:
                (size,) = _SIZE.unpack_from(source, position)
                size_max = self.frame_bytes_max + self._larger_bytes
                if left - 4 < size <= size_max and size > SMALL_BYTES:
                    self._begin_large(size, memoryview(source)[position + 4 : end])
                    left = 0
            # What waits already is not moved for every frame that is cut off it.
            if left and (source is not self._rest or position > left):
                self._rest = self._source = source[position:end]
                self.position, self.end = 0, left
        if not left:
            self._rest = None
            self._source = self._shared
            self.position = self.end = 0
        return self.held_bytes

    def clear(self) -> None:
        """Let go of everything that has arrived."""
        self._rest = self._large = None
        self._source = self._shared
        self.position = self.end = self._large_filled = self._large_size = 0

    def _begin_large(self, size: int, arrived: memoryview) -> None:
        self._large_size = size
        self._large = self._allocate(len(arrived))
        self._large_filled = len(arrived)
        self._large[: len(arrived)] = arrived

    def _enlarge(self, large: memoryview) -> None:
        self._large = self._allocate(len(large))
        self._large[: len(large)] = large

    def _allocate(self, arrived: int) -> memoryview:
        """Memory for a frame of which `arrived` bytes are there: all of it, or a bounded step."""
        size, trusted = self._large_size, max(arrived * TRUST_FACTOR, self._trusted_bytes)
        if size <= trusted and size <= OWN_BYTES_MAX:
            return memoryview(_memory(size))
        if trusted < min(size, OWN_BYTES_MAX):
            return memoryview(_memory(trusted))
        return memoryview(_pages(size))


def _memory(size: int) -> bytearray:
    """Memory for a frame, handed out only when all of it has been written to."""
    return bytearray(size) if size <= ZEROED_BYTES_MAX else unzeroed_memory(size)


def _pages(size: int) -> mmap.mmap | bytearray:
    """Pages of the kernel's, which commits those that bytes arrive in."""
    if sys.platform == "win32":  # where a client may run
        return unzeroed_memory(size)
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if _HUGE_PAGES is not None:  # a fault for every 2 MiB instead of for every 4 KiB
        with contextlib.suppress(OSError):
            pages.madvise(_HUGE_PAGES)
    return pages

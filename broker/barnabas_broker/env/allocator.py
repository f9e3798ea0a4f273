"""Tells the C library's allocator to keep memory that a busy broker will want again at once.

Request buffers come and go by the megabyte. By default glibc gives them back to the kernel each
time, and taking them anew costs a page fault for every 4 KiB: measured, half of the processor time
of receiving a request of 1 MB. Source: mallopt(3).
"""

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
MMAP_THRESHOLD_BYTES = 32 * 1024 * 1024
"""The largest value glibc takes."""


def keep_freed_memory(kept_bytes: int = 128 * 1024 * 1024) -> bool:
    """Keep up to so much freed memory in the process; False where the C library has no such knob.

    Call it once, after start-up: it imports ctypes.
    """
    import ctypes

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(
        mallopt(_M_TRIM_THRESHOLD, kept_bytes) and mallopt(_M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES)
    )

"""How a long-running broker treats its memory: what the allocator keeps, what the collector visits.

Request buffers come and go by the megabyte. By default glibc gives them back to the kernel each
time, and taking them anew costs a page fault for every 4 KiB: measured, half of the processor time
of receiving a request of 1 MB. Source: mallopt(3).

The collector of cyclic garbage, in turn, would walk over the modules, classes and tables of the
start again and again, milliseconds each time, for nothing: they live as long as the process.
Source: the gc module's documentation of `freeze`.
"""

import gc

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
MMAP_THRESHOLD_BYTES = 32 * 1024 * 1024
"""The largest value glibc takes."""
COLLECTOR_THRESHOLDS = (10_000, 3, 300)
"""Young objects before a collection, and how many of each generation before one of the next.

Requests leave no cycles behind; closed connections and exceptions do, and few of those. A round of
the second generation visits 30,000 objects at most: what a request of a hundred thousand elements
was made of, all at once, held the loop up for 55 ms.
"""


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


def forget_start_up() -> None:
    """Exempt all objects that exist now from garbage collection, and collect less often.

    Takes no time. Call it once, when all that is imported late has been imported too.
    """
    gc.freeze()
    gc.set_threshold(*COLLECTOR_THRESHOLDS)

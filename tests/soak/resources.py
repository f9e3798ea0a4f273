"""What the brokers' processes use, sampled between faults, and whether it stays flat.

The cache of the newest batches fills for as long as records are written, up to its limit: what it
has by its metric is not counted as growth.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.support.barnabas_process import BarnabasProcess

MEBIBYTE = 1 << 20
# A verdict needs samples of a time when the caches were full already.
SAMPLES_MIN = 8
# What connections of clients that come and go, and pools of threads, make of difference.
MEMORY_SLACK_BYTES = 24 * MEBIBYTE
DESCRIPTORS_SLACK = 24
THREADS_SLACK = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """One look at one process."""

    resident_bytes: int
    cached_bytes: int
    descriptors: int
    threads: int

    @property
    def own_bytes(self) -> int:
        """Memory for anything but the newest batches."""
        return self.resident_bytes - self.cached_bytes

    def __str__(self) -> str:
        memory, cached = self.resident_bytes // MEBIBYTE, self.cached_bytes // MEBIBYTE
        what = f"{memory} MiB ({cached} of them cache)"
        return f"{what}, {self.descriptors} descriptors, {self.threads} threads"


def usage(broker: BarnabasProcess) -> Usage:
    """What the process uses now. Raises: OSError while its admin port is not open."""
    assert broker.process is not None
    folder = Path(f"/proc/{broker.pid}")
    return Usage(
        resident_bytes=broker.process.resident_bytes(),
        cached_bytes=int(broker.metric("barnabas_tail_cache_bytes")),
        descriptors=len(os.listdir(folder / "fd")),
        threads=len(os.listdir(folder / "task")),
    )


def typical(samples: list[Usage]) -> Usage:
    """The medians."""
    return Usage(
        resident_bytes=int(median(one.resident_bytes for one in samples)),
        cached_bytes=int(median(one.cached_bytes for one in samples)),
        descriptors=int(median(one.descriptors for one in samples)),
        threads=int(median(one.threads for one in samples)),
    )


def growth(samples: list[Usage]) -> str:
    """What has grown from the second quarter of the samples to the last one, empty if nothing.

    The first quarter is left out: caches fill up.
    """
    if len(samples) < SAMPLES_MIN:
        return ""
    quarter = len(samples) // 4
    early, late = typical(samples[quarter : 2 * quarter]), typical(samples[-quarter:])
    has_grown = (
        late.own_bytes > early.own_bytes * 1.1 + MEMORY_SLACK_BYTES
        or late.descriptors > early.descriptors + DESCRIPTORS_SLACK
        or late.threads > early.threads + THREADS_SLACK
    )
    return f"from {early} to {late}" if has_grown else ""

"""What the brokers' processes use, sampled between faults, and whether it stays flat."""

import os
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.support.processes import ManagedProcess

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
    descriptors: int
    threads: int

    def __str__(self) -> str:
        memory = self.resident_bytes // MEBIBYTE
        return f"{memory} MiB, {self.descriptors} descriptors, {self.threads} threads"


def usage(process: ManagedProcess) -> Usage:
    """What the process uses now."""
    folder = Path(f"/proc/{process.pid}")
    return Usage(
        resident_bytes=process.resident_bytes(),
        descriptors=len(os.listdir(folder / "fd")),
        threads=len(os.listdir(folder / "task")),
    )


def typical(samples: list[Usage]) -> Usage:
    """The medians."""
    return Usage(
        resident_bytes=int(median(one.resident_bytes for one in samples)),
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
        late.resident_bytes > early.resident_bytes * 1.1 + MEMORY_SLACK_BYTES
        or late.descriptors > early.descriptors + DESCRIPTORS_SLACK
        or late.threads > early.threads + THREADS_SLACK
    )
    return f"from {early} to {late}" if has_grown else ""

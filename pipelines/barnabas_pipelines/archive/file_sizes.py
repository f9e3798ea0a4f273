"""Whether the files of a staged batch have a good size, and how to write them again if not. Pure.

A batch is first written as it comes, one file per Spark partition and day. Small batches would make
many tiny files, and a partition with a long backlog one giant. What was written is measured, so
nothing has to be guessed: only batches that are much too fine or too coarse are written again.

Invariant: planning again and again ends with every file at most as large as allowed, or holding one
record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_FILL: Final = 0.8
"""Of the size that is allowed, as sizes of records vary and so do those of files."""
_TOO_SMALL: Final = 0.5
"""Files whose mean is below this part of the target are put together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSizes:
    """What a file should have, and what it may have."""

    target_bytes: int
    maximum_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """How a batch is to be written again: over so many tasks, so many records a file at most."""

    task_count: int
    records_per_file_max: int


def rewrite(
    files: Mapping[str, int], record_count: int, sizes: FileSizes, previous: Rewrite | None = None
) -> Rewrite | None:
    """How to write these files (`day/name` to bytes) again; None if they are good as they are.

    `previous` is what the last rewriting was told, if there was one: the next is never coarser.
    """
    by_day: dict[str, list[int]] = {}
    for path, size in files.items():
        by_day.setdefault(path.rpartition("/")[0], []).append(size)
    total = sum(files.values())
    wanted = sum(max(1, -(-sum(found) // sizes.target_bytes)) for found in by_day.values())
    largest = max(files.values(), default=0)
    if largest > sizes.maximum_bytes:
        if previous is not None and previous.records_per_file_max <= 1:
            return None
        halved = previous.records_per_file_max // 2 if previous is not None else record_count
        fitting = _records_that_fit(total, record_count, sizes.maximum_bytes)
        return Rewrite(task_count=wanted, records_per_file_max=max(1, min(halved, fitting)))
    is_fine = len(files) <= wanted or total / len(files) >= sizes.target_bytes * _TOO_SMALL
    if is_fine or previous is not None:
        return None
    return Rewrite(
        task_count=max(1, -(-total // sizes.target_bytes)),
        records_per_file_max=max(1, _records_that_fit(total, record_count, sizes.maximum_bytes)),
    )


def records_per_file_max(byte_count: int, record_count: int, sizes: FileSizes) -> int | None:
    """How many records to put into a file, judging by a batch before; None if there was none."""
    if not byte_count or not record_count:
        return None
    return max(1, _records_that_fit(byte_count, record_count, sizes.maximum_bytes))


def _records_that_fit(byte_count: int, record_count: int, maximum_bytes: int) -> int:
    return int(maximum_bytes * _FILL * record_count / byte_count)

"""Rows that are read once: kept on local disks until they are written.

What is checked after they were read holds for what is written: should an executor and its disk be
lost in between, the action fails instead of reading the topic again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class KeptRows:
    """Rows on local disks, and how many there are."""

    rows: DataFrame
    count: int


@contextmanager
def read_once(rows: DataFrame) -> Iterator[KeptRows]:
    """The rows, read by now; what they take on disks is free again afterwards."""
    kept = rows.localCheckpoint(eager=True, storageLevel=StorageLevel.DISK_ONLY)
    try:
        yield KeptRows(kept, kept.count())
    finally:
        # Spark frees them when the JVM collects garbage, which may be long after a disk is full.
        plan: Any = kept._jdf.queryExecution().analyzed()
        plan.rdd().unpersist(False)

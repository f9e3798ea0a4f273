"""Reads an archive back: its rows with Spark, and what its manifests say without.

Any Parquet reader will do as well, as long as it skips names that begin with an underscore, or
looks for `batch=*/dt=*/*.parquet`.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from barnabas_pipelines.archive.directory import ArchiveDirectory, batch_path
from barnabas_pipelines.archive.manifest import Manifest, Totals
from barnabas_pipelines.errors import PipelineError
from barnabas_pipelines.storage.file_store import LocalFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_GLOB_CHARACTERS: Final = "*?[]{}"
_THREADS: Final = 16


def path_complaint(path: str) -> str | None:
    """Why a folder cannot hold an archive by its name; None if it can."""
    if any(character in path for character in _GLOB_CHARACTERS):
        return f"Spark takes any of {_GLOB_CHARACTERS} for a pattern: choose another name"
    return None


def local_archive(path: str) -> ArchiveDirectory | None:
    """The archive if it is on this machine, for looking at it without Spark; else None."""
    parts = urlsplit(path)
    if parts.scheme not in ("", "file"):
        return None
    return ArchiveDirectory(LocalFiles(Path(parts.path if parts.scheme else path)))


def manifests(directory: ArchiveDirectory) -> list[Manifest]:
    """The manifests of all batches, by number.

    Raises: PipelineError naming a batch that is not whole.
    """
    numbers = directory.numbers()
    # Object stores take their time for each question, and answer many at once.
    with ThreadPoolExecutor(_THREADS) as threads:
        found = list(threads.map(directory.manifest, numbers))
    whole = [one for one in found if one is not None]
    if len(whole) < len(numbers):
        missing = numbers[found.index(None)]
        raise PipelineError(
            f"{directory.store.url(batch_path(missing))} is not whole: files that its manifest "
            "lists are missing, or the manifest itself"
        )
    return whole


def summary(found: Sequence[Manifest]) -> Totals:
    """What these batches hold together."""
    totals = Totals()
    for one in found:
        totals = totals.plus(one.record_count, one.files)
    return totals


def read_batches(
    spark: SparkSession, directory: ArchiveDirectory, batches: Sequence[Manifest]
) -> DataFrame:
    """The rows of these batches; the number of its batch is the column `batch`."""
    from barnabas_pipelines.transforms.archive_rows import SCHEMA

    store = directory.store
    schema = f"{SCHEMA}, batch bigint"
    paths = [store.url(batch_path(one.number)) for one in batches if one.files]
    if not paths:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).option("basePath", store.url()).parquet(*paths)

"""Reads an archive back: its rows with Spark, and what its manifests say without.

Any Parquet reader will do as well, as long as it skips names that begin with an underscore, or
looks for `batch=*/dt=*/*.parquet`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from barnabas_pipelines.archive.directory import ArchiveDirectory, batch_path
from barnabas_pipelines.archive.manifest import Manifest
from barnabas_pipelines.errors import PipelineError
from barnabas_pipelines.storage.file_store import LocalFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_GLOB_CHARACTERS: Final = "*?[]{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveSummary:
    """What all batches of an archive hold together."""

    batch_count: int
    record_count: int
    byte_count: int
    file_count: int


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
    found = []
    for number in directory.numbers():
        manifest = directory.manifest(number)
        if manifest is None:
            raise PipelineError(
                f"{directory.store.url(batch_path(number))} is not whole: files that its manifest "
                "lists are missing, or the manifest itself"
            )
        found.append(manifest)
    return found


def summary(found: Sequence[Manifest]) -> ArchiveSummary:
    """What the batches hold together."""
    return ArchiveSummary(
        batch_count=len(found),
        record_count=sum(one.record_count for one in found),
        byte_count=sum(one.byte_count for one in found),
        file_count=sum(len(one.files) for one in found),
    )


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

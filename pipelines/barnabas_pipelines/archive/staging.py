"""Makes Parquet files of a batch: read once, measured, written again if their sizes do not fit.

Not here: which files are too large or too small (`file_sizes.py`), what becomes of them
(`batch_writer.py`). Needs pyspark.

Invariants: the records of a batch are read once from their topic; whatever is done again is done
with the staged files. What is told of a batch was read back from its files.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sf

from barnabas_pipelines.archive.batch_writer import StagedBatch
from barnabas_pipelines.archive.directory import ArchiveDirectory, staging_path
from barnabas_pipelines.archive.file_sizes import (
    FileSizes,
    Rewrite,
    records_per_file_max,
    rewrite,
)
from barnabas_pipelines.archive.manifest import BatchRange, Ends, Manifest
from barnabas_pipelines.errors import PipelineError
from barnabas_pipelines.transforms.archive_rows import DAY, SCHEMA, archive_rows, not_archived

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PARQUET: Final = ".parquet"
_ORDER: Final = (DAY, "topic", "partition", "offset")
_NO_TIME: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveForm:
    """How files are to be."""

    sizes: FileSizes
    compression: str


class SparkStager:
    """Stages batches; their files are written again until their sizes fit."""

    def __init__(self, directory: ArchiveDirectory, form: ArchiveForm) -> None:
        self._directory = directory
        self._form = form
        self._name: str | None = None

    def stage(self, records: DataFrame, ends: Ends, last: Manifest | None) -> StagedBatch:
        """Write the records at and behind the ends, once they have been read from their topic."""
        spark = records.sparkSession
        expected = None
        if last is not None:
            expected = records_per_file_max(last.byte_count, last.record_count, self._form.sizes)
        self._write(not_archived(archive_rows(records), ends), expected)
        ranges, times = self._census(spark)
        count = sum(one.record_count for one in ranges)
        plan: Rewrite | None = None
        while (plan := rewrite(self._files(), count, self._form.sizes, plan)) is not None:
            ranges = self._write_again(spark, plan, ranges)
        assert self._name is not None
        return StagedBatch(
            attempt=self._name,
            ranges=ranges,
            first_timestamp_ms=times[0],
            last_timestamp_ms=times[1],
            files=self._files(),
        )

    def discard(self) -> None:
        """Take away what is staged, if it is still there."""
        if self._name is not None:
            self._directory.discard(self._name)
            self._name = None

    def _path(self) -> str:
        assert self._name is not None
        return staging_path(self._name)

    def _files(self) -> dict[str, int]:
        found = self._directory.store.files(self._path())
        return {path: size for path, size in found.items() if _is_data(path)}

    def _write(self, rows: DataFrame, records_per_file: int | None) -> None:
        """Stage the rows in the order of their offsets, under a new name."""
        self._name = uuid.uuid4().hex
        writer = (
            rows.sortWithinPartitions(*_ORDER)
            .write.partitionBy(DAY)
            .option("compression", self._form.compression)
            .option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        )
        if records_per_file is not None:
            writer = writer.option("maxRecordsPerFile", records_per_file)
        writer.parquet(self._directory.store.url(self._path()))

    def _census(self, spark: SparkSession) -> tuple[tuple[BatchRange, ...], tuple[int, int]]:
        """What the staged files hold, by partition, and their first and last timestamps."""
        if not self._files():
            return (), (_NO_TIME, _NO_TIME)
        found = (
            self._read(spark)
            .groupBy("topic", "partition")
            .agg(
                sf.min("offset"),
                sf.max("offset"),
                sf.count("offset"),
                sf.min(sf.unix_millis("timestamp")),
                sf.max(sf.unix_millis("timestamp")),
            )
            .orderBy("topic", "partition")
            .collect()
        )
        ranges = tuple(
            BatchRange(
                topic=row[0], partition=row[1], start=row[2], end=row[3] + 1, record_count=row[4]
            )
            for row in found
        )
        return ranges, (min(row[5] for row in found), max(row[6] for row in found))

    def _write_again(
        self, spark: SparkSession, plan: Rewrite, ranges: tuple[BatchRange, ...]
    ) -> tuple[BatchRange, ...]:
        """Put the staged rows into other files. Raises: PipelineError if they differ then."""
        former, rows = self._name, self._read(spark)
        if plan.task_count == 1:
            rows = rows.coalesce(1)
        else:
            rows = rows.repartitionByRange(plan.task_count, *_ORDER)
        self._write(rows, plan.records_per_file_max)
        assert former is not None
        self._directory.discard(former)
        written, _ = self._census(spark)
        if written != ranges:
            raise PipelineError(
                f"{written} was written in place of {ranges}: nothing of this batch was published"
            )
        return written

    def _read(self, spark: SparkSession) -> DataFrame:
        # Their folder is hidden from readers, so the days in it are named one by one.
        url = self._directory.store.url(self._path())
        days = sorted({path.partition("/")[0] for path in self._files()})
        paths = [f"{url}/{day}" for day in days]
        return spark.read.schema(SCHEMA).option("basePath", url).parquet(*paths)


def _is_data(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.endswith(_PARQUET) and not name.startswith((".", "_"))

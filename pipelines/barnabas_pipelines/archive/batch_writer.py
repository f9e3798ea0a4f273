"""Writes a batch of records into an archive: staged, measured, checked, then published.

Not here: what makes it exactly once (`directory.py`), which file is too large (`file_sizes.py`).

Invariants: the records of a batch are read once from their topic; whatever is done again is done
with the staged files. What a manifest says was read back from the files that it lists.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from barnabas_pipelines.archive.checkpoint import batch_ends
from barnabas_pipelines.archive.directory import ArchiveDirectory, staging_path
from barnabas_pipelines.archive.file_sizes import (
    FileSizes,
    Rewrite,
    records_per_file_max,
    rewrite,
)
from barnabas_pipelines.archive.manifest import BatchRange, Ends, Manifest, advanced, ends_of
from barnabas_pipelines.errors import DataLossError, PipelineError, TopicGoneError
from barnabas_pipelines.storage.file_store import FileStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PARQUET: Final = ".parquet"
_ORDER: Final = ("dt", "topic", "partition", "offset")
_NO_TIME: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveForm:
    """How files are to be."""

    sizes: FileSizes
    compression: str


class BatchWriter:
    """What `foreachBatch` calls; goes on behind the archive's newest batch, `last`.

    `topic_ids` asks the cluster for the ids that the topics have at that moment.
    """

    def __init__(
        self,
        directory: ArchiveDirectory,
        last: Manifest | None,
        form: ArchiveForm,
        *,
        topic_ids: Callable[[], Mapping[str, str | None]],
        checkpoint: FileStore,
        say: Callable[[str], None],
        is_loss_allowed: bool = False,
    ) -> None:
        self._directory = directory
        self._last = last
        self._form = form
        self._topic_ids = topic_ids
        self._checkpoint = checkpoint
        self._say = say
        self._is_loss_allowed = is_loss_allowed

    def __call__(self, records: DataFrame, spark_batch_id: int) -> None:
        """Add to the archive what it has not yet of a batch.

        Raises: TopicGoneError if a topic was made anew; DataLossError if the batch begins behind
            the archive's end; SecondWriterError.
        """
        from barnabas_pipelines.transforms.archive_rows import archive_rows, not_archived

        ends: Ends = self._last.ends if self._last is not None else {}
        ids = self._topic_ids()
        self._check_ids(ids)
        self._check_start(ends, batch_ends(self._checkpoint, spark_batch_id - 1))
        attempt = _Attempt(self._directory, self._form, records.sparkSession)
        try:
            rows = not_archived(archive_rows(records), ends)
            attempt.write(rows, self._records_per_file_max())
            ranges, times = attempt.census()
            attempt.fit()
            # Again, because the topic may have been made anew while it was read.
            self._check_ids(self._topic_ids(), ids)
            reached = advanced(ends, ends_of(ranges))
            reached = advanced(reached, batch_ends(self._checkpoint, spark_batch_id) or {})
            if reached == {topic: dict(found) for topic, found in ends.items()}:
                self._say(f"batch {spark_batch_id} was archived already")
                return
            manifest = Manifest(
                number=self._last.number + 1 if self._last is not None else 0,
                spark_batch_id=spark_batch_id,
                topic_ids=ids,
                ranges=ranges,
                ends=reached,
                first_timestamp_ms=times[0],
                last_timestamp_ms=times[1],
                files=attempt.files(),
            )
            self._directory.publish(attempt.name, manifest)
            self._last = manifest
        finally:
            attempt.discard()

    def _check_ids(
        self, now: Mapping[str, str | None], before: Mapping[str, str | None] | None = None
    ) -> None:
        known = before or (self._last.topic_ids if self._last is not None else {})
        for topic, topic_id in now.items():
            expected = known.get(topic)
            if topic_id is not None and expected is not None and topic_id != expected:
                raise TopicGoneError(
                    f"topic {topic} was deleted and made anew since this archive was begun (its id "
                    f"was {expected}, now it is {topic_id}), so its offsets mean other records: "
                    "archive it into another folder, with another checkpoint"
                )

    def _check_start(self, ends: Ends, starts: Ends | None) -> None:
        """Notice that the checkpoint is ahead of the archive, before the hole is made."""
        for topic, found in (starts or {}).items():
            for partition, start in found.items():
                end = ends.get(topic, {}).get(partition, 0)
                # A partition that the archive knows nothing of may begin anywhere.
                if partition not in ends.get(topic, {}) or start <= end:
                    continue
                text = (
                    f"the checkpoint goes on at offset {start} of {topic}-{partition}, but the "
                    f"archive ends at {end}: {start - end} offsets would be missing"
                )
                if not self._is_loss_allowed:
                    raise DataLossError(
                        f"{text}; delete the checkpoint to go on where the archive ends, or let it "
                        "be with --no-fail-on-data-loss"
                    )
                self._say(text)

    def _records_per_file_max(self) -> int | None:
        last = self._last
        if last is None:
            return None
        return records_per_file_max(last.byte_count, last.record_count, self._form.sizes)


class _Attempt:
    """Files of one batch, staged; written again until their sizes fit."""

    def __init__(self, directory: ArchiveDirectory, form: ArchiveForm, spark: Any) -> None:
        self.name = uuid.uuid4().hex
        self._directory = directory
        self._form = form
        self._spark = spark
        self._record_count = 0

    @property
    def _url(self) -> str:
        return self._directory.store.url(staging_path(self.name))

    def files(self) -> dict[str, int]:
        """The data files that are staged, by size."""
        found = self._directory.store.files(staging_path(self.name))
        return {path: size for path, size in found.items() if _is_data(path)}

    def discard(self) -> None:
        """Take away what is staged, if it is still there."""
        self._directory.discard(self.name)

    def write(self, rows: DataFrame, records_per_file: int | None) -> None:
        """Stage the rows in the order of their offsets."""
        writer = (
            rows.sortWithinPartitions(*_ORDER)
            .write.partitionBy("dt")
            .option("compression", self._form.compression)
            .option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        )
        if records_per_file is not None:
            writer = writer.option("maxRecordsPerFile", records_per_file)
        writer.parquet(self._url)

    def census(self) -> tuple[tuple[BatchRange, ...], tuple[int, int]]:
        """What the staged files hold, by partition, and their first and last timestamps."""
        if not self.files():
            return (), (_NO_TIME, _NO_TIME)
        from pyspark.sql import functions as sf

        found = (
            self._read()
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
        self._record_count = sum(one.record_count for one in ranges)
        return ranges, (min(row[5] for row in found), max(row[6] for row in found))

    def fit(self) -> None:
        """Write the staged files again until none is too large, nor all of them too small."""
        plan: Rewrite | None = None
        while True:
            plan = rewrite(self.files(), self._record_count, self._form.sizes, plan)
            if plan is None:
                return
            self._write_again(plan)

    def _write_again(self, plan: Rewrite) -> None:
        rows, former = self._read(), self.name
        if plan.task_count == 1:
            rows = rows.coalesce(1)
        else:
            rows = rows.repartitionByRange(plan.task_count, *_ORDER)
        self.name = uuid.uuid4().hex
        self.write(rows, plan.records_per_file_max)
        self._directory.discard(former)
        written = sum(one.record_count for one in self._census_again())
        if written != self._record_count:
            raise PipelineError(
                f"{written} records were written in place of {self._record_count}: nothing of this "
                "batch was published"
            )

    def _census_again(self) -> tuple[BatchRange, ...]:
        expected = self._record_count
        ranges, _ = self.census()
        self._record_count = expected
        return ranges

    def _read(self) -> DataFrame:
        from barnabas_pipelines.transforms.archive_rows import SCHEMA

        # Their folder is hidden from readers, so the days in it are named one by one.
        days = sorted({path.partition("/")[0] for path in self.files()})
        frame: DataFrame = (
            self._spark.read.schema(SCHEMA)
            .option("basePath", self._url)
            .parquet(*(f"{self._url}/{day}" for day in days))
        )
        return frame


def _is_data(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.endswith(_PARQUET) and not name.startswith((".", "_"))

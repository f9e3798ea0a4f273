"""Tables in Delta Lake's format, by Spark.

Of writers that saw the same state one commits: each commit names the same `txnAppId` and the next
`txnVersion`. Delta lets a writer fail when such a commit came in while it wrote, and leaves its
rows out without a word when it was there before. So after each commit the history is read to
see whose it was.

Each table writes in a session of its own, a copy of the one that it was given, and each merge in a
copy of that: `MERGE` takes its transaction and its metadata from settings of the session, and of
two writers that share one each could commit with the other's mark.

Source: Delta's protocol (transaction identifiers, commit provenance) and `delta-spark` 4.4.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from barnabas_pipelines.errors import PipelineError
from barnabas_pipelines.tables.marks import Commit, Mark, TableChangedError, newest_mark
from barnabas_pipelines.tables.table import SecondWriterError, TableState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

APPLICATION: Final = "barnabas"
"""The `txnAppId` of every commit of every job."""

FILE_BYTES: Final = 128 * 1024**2
_PREFIX: Final = "spark.databricks.delta."
#: The search for a mark begins with the newest commit, which it nearly always is.
_HISTORY_LIMITS: Final = (1, 30, None)
_CONFLICTS: Final = (
    "ConcurrentTransactionException",
    "ConcurrentAppendException",
    "ConcurrentDeleteReadException",
    "ConcurrentDeleteDeleteException",
    "ConcurrentWriteException",
    "ProtocolChangedException",
    "MetadataChangedException",
    "DELTA_CONCURRENT",
    "DELTA_PROTOCOL_CHANGED",
    "DELTA_METADATA_CHANGED",
)


class DeltaTable:
    """A table in a folder of any file system that Spark and Delta know."""

    def __init__(
        self,
        spark: SparkSession,
        path: str,
        *,
        file_bytes: int = FILE_BYTES,
        compression: str = "snappy",
    ) -> None:
        """Take what files should weigh; nothing is read or written yet."""
        self._spark = spark
        self._path = _whole_path(spark, path)
        conf = {
            f"{_PREFIX}optimizeWrite.binSize": f"{file_bytes}b",
            f"{_PREFIX}optimize.maxFileSize": str(file_bytes),
            f"{_PREFIX}optimize.minFileSize": str(file_bytes),
            # Spark's default is a type that only old readers of Parquet want.
            "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
            "spark.sql.parquet.compression.codec": compression,
        }
        self._session = _copy_of(spark, conf)

    def state(self) -> TableState:
        """Return what it has now."""
        if not self._exists():
            return TableState(version=-1, sequence=0, mark=None)
        jvm: Any = self._spark._jvm
        log: Any = jvm.org.apache.spark.sql.delta.DeltaLog
        snapshot = log.forTableWithSnapshot(self._spark._jsparkSession, self._path)._2()
        found = snapshot.transactions().get(APPLICATION)
        version = int(snapshot.version())
        if not found.isDefined():
            raise TableChangedError(
                f"{self._path} is a table of somebody else: no job of this package has written it"
            )
        return TableState(
            version=version,
            sequence=int(found.get()),
            mark=self._newest_mark(version),
            table_id=str(snapshot.metadata().id()),
        )

    def rows(self, version: int | None = None) -> DataFrame:
        """Return its rows."""
        reader = self._spark.read.format("delta")
        if version is not None:
            reader = reader.option("versionAsOf", version)
        return reader.load(self._path)

    def append(self, rows: DataFrame, mark: Mark, partition_by: Sequence[str]) -> None:
        """Add rows."""
        self._write(rows, mark, "append", partition_by, {})

    def overwrite(self, rows: DataFrame, mark: Mark) -> None:
        """Replace all rows, and the columns."""
        self._write(rows, mark, "overwrite", (), {"overwriteSchema": "true"})

    def merge(self, changes: DataFrame, mark: Mark, key: str, deleted_where: str) -> None:
        """Replace, add and delete rows."""
        settings = {
            f"{_PREFIX}write.txnAppId": APPLICATION,
            f"{_PREFIX}write.txnVersion": str(mark.sequence),
            f"{_PREFIX}commitInfo.userMetadata": mark.to_text(),
            f"{_PREFIX}optimizeWrite.enabled": "true",
        }
        session = _copy_of(self._session, settings)
        with self._view(changes, mark) as view, _conflicts_told(self._path):
            session.sql(
                f"MERGE INTO {self._name} AS old USING {view} AS new "
                f"ON old.`{key}` = new.`{key}` "
                f"WHEN MATCHED AND {deleted_where} THEN DELETE "
                "WHEN MATCHED THEN UPDATE SET * "
                f"WHEN NOT MATCHED AND NOT ({deleted_where}) THEN INSERT *"
            )
        self._check_is_ours(mark)

    def optimize(self) -> Mapping[str, int]:
        """Put small files together."""
        (row,) = self._session.sql(f"OPTIMIZE {self._name}").collect()
        return {"added": row.metrics.numFilesAdded, "removed": row.metrics.numFilesRemoved}

    def vacuum(self, older_than_hours: float) -> None:
        """Delete files that only old versions need."""
        self._spark.sql(f"VACUUM {self._name} RETAIN {older_than_hours:f} HOURS").collect()

    @property
    def _name(self) -> str:
        return "delta.`{}`".format(self._path.replace("`", "``"))

    def _exists(self) -> bool:
        jvm: Any = self._spark._jvm
        delta: Any = jvm.io.delta.tables.DeltaTable
        return bool(delta.isDeltaTable(self._spark._jsparkSession, self._path))

    def _write(
        self,
        rows: DataFrame,
        mark: Mark,
        mode: str,
        partition_by: Sequence[str],
        more: Mapping[str, str],
    ) -> None:
        with self._view(rows, mark) as view, _conflicts_told(self._path):
            writer = self._session.table(view).write.format("delta").mode(mode).options(**more)
            if partition_by:
                writer = writer.partitionBy(*partition_by)
            (
                writer.option("txnAppId", APPLICATION)
                .option("txnVersion", str(mark.sequence))
                .option("userMetadata", mark.to_text())
                .option("optimizeWrite", "true")
                .save(self._path)
            )
        self._check_is_ours(mark)

    @contextmanager
    def _view(self, rows: DataFrame, mark: Mark) -> Iterator[str]:
        """The name of a view of the rows that the table's own session sees, too."""
        name = f"barnabas_{mark.attempt}"
        rows.createOrReplaceGlobalTempView(name)
        try:
            yield f"{self._session.conf.get('spark.sql.globalTempDatabase')}.{name}"
        finally:
            self._session.catalog.dropGlobalTempView(name)

    def _check_is_ours(self, mark: Mark) -> None:
        """Make sure that the commit of this sequence is that of this mark, and the mark is true.

        Raises: SecondWriterError, TableChangedError.
        """
        for limit in _HISTORY_LIMITS:
            for commit in self._history(limit):
                found = commit.mark()
                if found is not None and found.sequence == mark.sequence:
                    if found.attempt == mark.attempt:
                        if commit.version > mark.base + 1:
                            self._newest_mark(commit.version)
                        return
                    raise _second_writer(self._path)
        raise _second_writer(self._path)

    def _newest_mark(self, version: int) -> Mark | None:
        for limit in _HISTORY_LIMITS:
            history = [one for one in self._history(limit) if one.version <= version]
            mark = newest_mark(history)
            # Also what came in between is to be looked at, as far as there is a history.
            if mark is not None and (limit is None or history[-1].version <= mark.base + 1):
                return mark
        return None

    def _history(self, limit: int | None) -> list[Commit]:
        """The commits of which the history is there, the newest first."""
        bound = "" if limit is None else f" LIMIT {limit}"
        found = self._spark.sql(f"DESCRIBE HISTORY {self._name}{bound}").collect()
        return [
            Commit(
                version=row.version,
                timestamp_ms=round(row.timestamp.timestamp() * 1000),
                operation=row.operation,
                parameters=dict(row.operationParameters or {}),
                user_metadata=row.userMetadata,
                metrics=dict(row.operationMetrics or {}),
            )
            for row in found
        ]


def _copy_of(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """A session with the same settings but for these; nobody else can change them."""
    java: Any = spark._jsparkSession
    found = type(spark)(spark.sparkContext, java.cloneSession())
    for name, value in settings.items():
        found.conf.set(name, value)
    return found


def _whole_path(spark: SparkSession, path: str) -> str:
    """The path with its file system and from its root on: SQL takes no other for a table."""
    jvm: Any = spark._jvm
    java: Any = spark._jsc
    folder = jvm.org.apache.hadoop.fs.Path(path)
    files = folder.getFileSystem(java.hadoopConfiguration())
    return str(files.makeQualified(folder).toString())


@contextmanager
def _conflicts_told(path: str) -> Iterator[None]:
    """Raises: SecondWriterError in place of what Delta says of commits that came in between."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        text = str(error)
        if any(name in text for name in _CONFLICTS):
            raise _second_writer(path) from error
        raise


def _second_writer(path: str) -> PipelineError:
    return SecondWriterError(
        f"another job has written to {path} meanwhile, so nothing of this batch was written: let "
        "one job at a time write to a table, then run it again"
    )

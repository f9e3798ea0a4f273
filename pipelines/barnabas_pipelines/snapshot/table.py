"""A table in versions: each is written whole, then a pointer is moved to it.

    TABLE/CURRENT                     the number of the version to read, one line
    TABLE/versions/00000007/          part-*.parquet, _manifest.json
    TABLE/building/00000008-1f0c2ab4/ a version that is being written, or was when a run died
    TABLE/LOCK                        held while a run lasts, on file systems of this machine

Killed between any two steps, a run leaves the pointer at a version that is complete: the old one,
or from the moment it is moved, the new one. What else it leaves, the next run deletes. Readers take
`latest_snapshot` and keep to the folder it names; it stays for as many runs as versions are kept.

Not here: what is in a version (`jobs/snapshot.py`), which offsets (`ranges.py`).
"""

from __future__ import annotations

import fcntl
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from barnabas_pipelines.errors import PipelineError
from barnabas_pipelines.snapshot import manifest as manifests
from barnabas_pipelines.snapshot.manifest import Manifest, ManifestError
from barnabas_pipelines.storage.file_store import FileStore, LocalFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CURRENT: Final = "CURRENT"
VERSIONS: Final = "versions"
BUILDING: Final = "building"
LOCK: Final = "LOCK"
_README: Final = f"{VERSIONS}/README"


class NoSnapshotError(PipelineError):
    """There is no version of the table yet."""


class TableInUseError(PipelineError):
    """Another run is writing to the table."""


def latest_snapshot(path: str, spark: SparkSession | None = None) -> str:
    """The folder with the Parquet files of the current version, for any reader.

    A path of this machine needs nothing; other addresses need a session that can reach them.
    Raises: NoSnapshotError.
    """
    store = _store(path, spark)
    number = SnapshotTable(store).current_number()
    if number is None:
        raise NoSnapshotError(f"there is no snapshot in {path}")
    url = store.url(_version(number))
    return _local_path(url) or url


def read_snapshot(spark: SparkSession, path: str) -> DataFrame:
    """The current version as a frame. Raises: NoSnapshotError."""
    return spark.read.parquet(latest_snapshot(path, spark))


class SnapshotTable:
    """The versions below a root folder; one run at a time works with it (`locked`).

    What a run builds has a name of its own: the JVM of a driver that was killed may live on for a
    moment and write.
    """

    def __init__(self, store: FileStore) -> None:
        self._store = store
        self._run = uuid.uuid4().hex[:8]

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock, which the kernel lets go however the run ends.

        Elsewhere than on this machine there is none: of two runs, the second to finish fails.
        Raises: TableInUseError.
        """
        path = _local_path(self._store.url(LOCK))
        if path is None:
            yield
            return
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with Path(path).open("w", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise TableInUseError(f"another run is writing to {self._store.url()}") from None
            yield

    def current_number(self) -> int | None:
        """The number that the pointer has; None before the first version.

        Raises: ManifestError if the pointer holds something else.
        """
        text = self._store.read(CURRENT)
        if text is None:
            return None
        if not text.strip().isdecimal():
            raise ManifestError(f"{self._store.url(CURRENT)} holds no number: {text[:40]!r}")
        return int(text)

    def current(self) -> Manifest | None:
        """What is known of the current version; None before the first. Raises: ManifestError."""
        number = self.current_number()
        if number is None:
            return None
        text = self._store.read(f"{_version(number)}/{manifests.NAME}")
        if text is None:
            raise ManifestError(
                f"{self._store.url(_version(number))} has no {manifests.NAME}: run with --rebuild"
            )
        return Manifest.parse(text)

    def url(self, number: int) -> str:
        """What Spark calls the folder of a version."""
        return self._store.url(_version(number))

    def begin(self) -> int:
        """Delete what dead runs have left; the number of the version to be written."""
        self._store.delete(BUILDING)
        if self._store.read(_README) is None:
            self._store.write(_README, "Read the version that ../CURRENT names, and no other.\n")
        try:
            current = self.current_number() or 0
        except ManifestError:
            return max(self._numbers(), default=0) + 1
        for number in self._numbers():
            if number > current:
                self._store.delete(_version(number))
        return current + 1

    def building_url(self, number: int) -> str:
        """Where the files of a version are written, out of sight of readers."""
        return self._store.url(self._building(number))

    def finish(self, manifest: Manifest) -> None:
        """Give the version its name, then move the pointer to it.

        Raises: TableInUseError if another run has made this version meanwhile.
        """
        building = self._building(manifest.number)
        self._store.write(f"{building}/{manifests.NAME}", manifest.text())
        try:
            self._store.publish(building, _version(manifest.number))
        except FileExistsError:
            raise TableInUseError(
                f"another run has made version {manifest.number} of {self._store.url()}"
            ) from None
        self._store.write(CURRENT, f"{manifest.number}\n")

    def refresh(self, manifest: Manifest) -> None:
        """Replace what is known of the current version, whose rows stay as they are."""
        self._store.write(f"{_version(manifest.number)}/{manifests.NAME}", manifest.text())

    def prune(self, kept_count: int) -> None:
        """Delete all but so many versions before the current one."""
        current = self.current_number() or 0
        for number in self._numbers():
            if number < current - kept_count:
                self._store.delete(_version(number))

    def _building(self, number: int) -> str:
        return f"{BUILDING}/{number:08d}-{self._run}"

    def _numbers(self) -> list[int]:
        return [int(name) for name in self._store.names(VERSIONS) if name.isdecimal()]


def _version(number: int) -> str:
    return f"{VERSIONS}/{number:08d}"


def _store(path: str, spark: SparkSession | None) -> FileStore:
    if spark is not None:
        from barnabas_pipelines.storage.hadoop_files import open_store

        return open_store(spark, path)
    local = _local_path(path)
    if local is None:
        raise PipelineError(f"{path} can only be reached with a session of Spark: give one")
    return LocalFiles(Path(local))


def _local_path(address: str) -> str | None:
    """The path on this machine; None if it is elsewhere."""
    parts = urlsplit(address)
    if parts.scheme == "":
        return address
    return unquote(parts.path) if parts.scheme == "file" else None

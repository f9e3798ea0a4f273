"""Files wherever Spark can write (HDFS, object stores, ...), through the driver's JVM.

Source: Hadoop's FileSystem and FileContext; the latter renames without ever replacing, which is
also what Spark's own checkpoints rely on.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from barnabas_pipelines.storage.file_store import FileStore, LocalFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_REPLACING_SCHEMES = ("file", "hdfs", "viewfs", "abfs", "abfss")
"""Where FileContext replaces a file in one step."""
_CONDITIONAL = "fs.option.create.conditional.overwrite"
"""Lets S3 itself see to it that there is no such object yet; passed over where it is not needed."""
_MISSING = "FileNotFoundException"


def open_store(spark: SparkSession, root: str) -> FileStore:
    """The files below `root`, which is what Spark would make of it; local ones without the JVM."""
    files = HadoopFiles(spark, root)
    return LocalFiles(Path(files.local_path)) if files.local_path is not None else files


class HadoopFiles:
    """A folder on a file system of Hadoop's."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self._spark = spark
        jvm: Any = spark._jvm
        self._hadoop: Any = jvm.org.apache.hadoop.fs
        self._configuration: Any = spark._jsc.hadoopConfiguration()
        path = self._hadoop.Path(root)
        self._files: Any = path.getFileSystem(self._configuration)
        self._root: Any = self._files.makeQualified(path)

    @property
    def local_path(self) -> str | None:
        """The path on this machine; None if it is elsewhere."""
        uri = self._root.toUri()
        return str(uri.getPath()) if uri.getScheme() == "file" else None

    def url(self, path: str = "") -> str:
        """Return what Spark calls the path."""
        return str(self._path(path).toString())

    def names(self, path: str = "") -> tuple[str, ...]:
        """Return what is in a folder."""
        try:
            found = self._files.listStatus(self._path(path))
        except Py4JJavaError as error:
            if _class_name(error) == _MISSING:
                return ()
            raise
        return tuple(sorted(str(one.getPath().getName()) for one in found))

    def read(self, path: str) -> str | None:
        """Return the text of a file."""
        try:
            stream = self._files.open(self._path(path))
        except Py4JJavaError as error:
            if _class_name(error) == _MISSING:
                return None
            raise
        jvm: Any = self._spark._jvm
        try:
            return str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, path: str, text: str) -> None:
        """Write beside the file, then rename; an object store shows a whole object anyhow."""
        target = self._path(path)
        if str(self._root.toUri().getScheme()) not in _REPLACING_SCHEMES:
            self._create(target, text, is_replaced=True)
            return
        beside = self._hadoop.Path(target.getParent(), f".{target.getName()}.new")
        self._create(beside, text, is_replaced=True)
        options = self._rename_options(self._hadoop.Options.Rename.OVERWRITE)
        self._context(beside).rename(beside, target, options)

    def create(self, path: str, text: str) -> bool:
        """Write beside the file, then rename; an object store creates it only if it is not there.

        S3 does it with hadoop-aws 3.4.2 or newer, which Spark 4.2 has; older ones only look first.
        """
        target = self._path(path)
        if str(self._root.toUri().getScheme()) not in _REPLACING_SCHEMES:
            return self._is_new(target, lambda: self._create(target, text, is_replaced=False))
        beside = self._hadoop.Path(target.getParent(), f".{target.getName()}.{uuid.uuid4().hex}")
        self._create(beside, text, is_replaced=False)
        context = self._context(beside)
        try:
            return self._is_new(
                target, lambda: context.rename(beside, target, self._rename_options())
            )
        finally:
            self._files.delete(beside, False)

    def _is_new(self, target: Any, create: Callable[[], object]) -> bool:
        """Create a file; False if that fails and there is one, whatever the store calls that."""
        try:
            create()
        except Py4JJavaError:
            if not self._files.exists(target):
                raise
            return False
        return True

    def remove(self, path: str) -> None:
        """Remove a file."""
        self._files.delete(self._path(path), False)

    def _create(self, target: Any, text: str, *, is_replaced: bool) -> None:
        builder = self._files.createFile(target).overwrite(is_replaced).recursive()
        if not is_replaced:
            builder = builder.opt(_CONDITIONAL, True)
        stream = builder.build()
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def _context(self, path: Any) -> Any:
        return self._hadoop.FileContext.getFileContext(path.toUri(), self._configuration)

    def _rename_options(self, *options: Any) -> Any:
        gateway: Any = self._spark.sparkContext._gateway
        found = gateway.new_array(self._hadoop.Options.Rename, len(options))
        for index, option in enumerate(options):
            found[index] = option
        return found

    def _path(self, path: str) -> Any:
        return self._hadoop.Path(self._root, path) if path else self._root


def _class_name(error: Py4JJavaError) -> str:
    return str(error.java_exception.getClass().getSimpleName())

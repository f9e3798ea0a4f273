"""File systems that only Spark reaches: the same promises as those of a folder of this machine."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from barnabas_pipelines.storage.file_store import LocalFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from barnabas_pipelines.storage.hadoop_files import HadoopFiles

pytestmark = pytest.mark.spark


@pytest.fixture(name="store")
def a_store(spark: "SparkSession", tmp_path: Path) -> "HadoopFiles":
    """Hadoop's own view of a folder that does not exist yet."""
    from barnabas_pipelines.storage.hadoop_files import HadoopFiles

    return HadoopFiles(spark, f"{tmp_path}/not yet")


def test_what_is_not_there_is_empty(store: "HadoopFiles") -> None:
    """Nobody has to make folders first, nor ask."""
    assert store.names() == ()
    assert store.read("a/b") is None


def test_files_are_written_whole_and_found_again(store: "HadoopFiles") -> None:
    """Checksum files, which Hadoop hides, do not count."""
    store.write("a/b/c.json", "one")
    store.write("a/b/c.json", "two, longer")
    store.write("a/d.json", "ä")
    assert store.read("a/b/c.json") == "two, longer"
    assert store.names("a") == ("b", "d.json")


@pytest.mark.parametrize("is_object_store", [False, True])
def test_a_file_is_created_once_and_can_be_removed(
    store: "HadoopFiles", monkeypatch: pytest.MonkeyPatch, is_object_store: bool
) -> None:
    """Who creates it knows; what is there stays as it is. An object store has nothing to rename."""
    from barnabas_pipelines.storage import hadoop_files

    if is_object_store:
        monkeypatch.setattr(hadoop_files, "_REPLACING_SCHEMES", ())
    assert store.create("a/b.json", "one")
    assert not store.create("a/b.json", "two")
    assert store.read("a/b.json") == "one"
    assert store.names("a") == ("b.json",)
    store.remove("a/b.json")
    store.remove("a/b.json")
    assert store.create("a/b.json", "three")
    assert store.read("a/b.json") == "three"


def test_folders_of_this_machine_need_no_jvm(spark: "SparkSession", tmp_path: Path) -> None:
    """They are written and renamed with the system's own calls, which say what happened."""
    from barnabas_pipelines.storage.hadoop_files import open_store

    for path in (f"{tmp_path}/a b", f"file:{tmp_path}/a b", f"file://{tmp_path}/a b"):
        store = open_store(spark, path)
        assert isinstance(store, LocalFiles)
        assert store.url("c") == f"file://{tmp_path}/a b/c"

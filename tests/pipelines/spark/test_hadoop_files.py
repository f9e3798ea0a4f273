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
    assert store.files("a") == {}
    assert store.read("a/b") is None
    store.delete("a")


def test_files_are_written_whole_and_found_again(store: "HadoopFiles") -> None:
    """Checksum files, which Hadoop hides, do not count."""
    store.write("a/b/c.json", "one")
    store.write("a/b/c.json", "two, longer")
    store.write("a/d.json", "ä")
    assert store.read("a/b/c.json") == "two, longer"
    assert store.names("a") == ("b", "d.json")
    assert store.files("a") == {"b/c.json": 11, "d.json": 2}


def test_a_folder_is_published_once(store: "HadoopFiles") -> None:
    """Hadoop's plain rename would move the second into the first."""
    store.write("staged/1/x", "first")
    store.write("staged/2/x", "second")
    store.publish("staged/1", "batch=0")
    assert store.names() == ("batch=0", "staged")
    with pytest.raises(FileExistsError):
        store.publish("staged/2", "batch=0")
    assert store.files("batch=0") == {"x": 5}
    assert store.read("staged/2/x") == "second"
    with pytest.raises(FileNotFoundError):
        store.publish("staged/1", "batch=1")


def test_deleting_takes_all_that_is_below(store: "HadoopFiles") -> None:
    """Files and folders alike."""
    store.write("a/b/c", "")
    store.write("a/d", "")
    store.delete("a/b")
    store.delete("a/d")
    assert store.names("a") == ()


def test_folders_of_this_machine_need_no_jvm(spark: "SparkSession", tmp_path: Path) -> None:
    """They are written and renamed with the system's own calls, which say what happened."""
    from barnabas_pipelines.storage.hadoop_files import open_store

    for path in (f"{tmp_path}/a b", f"file:{tmp_path}/a b", f"file://{tmp_path}/a b"):
        store = open_store(spark, path)
        assert isinstance(store, LocalFiles)
        assert store.url("c") == f"file://{tmp_path}/a b/c"

"""The folder of this machine: what is written appears whole."""

from pathlib import Path

import pytest

from barnabas_pipelines.storage.file_store import FileStore, LocalFiles


@pytest.fixture(name="store")
def a_store(tmp_path: Path) -> FileStore:
    """A root that does not exist yet."""
    return LocalFiles(tmp_path / "not yet")


def test_what_is_not_there_is_empty(store: FileStore) -> None:
    """Nobody has to make folders first, nor ask."""
    assert store.names() == ()
    assert store.read("a/b") is None


def test_files_are_written_whole_and_found_again(store: FileStore, tmp_path: Path) -> None:
    """Nothing is left beside them."""
    store.write("a/b/c.json", "one")
    store.write("a/b/c.json", "two, longer")
    store.write("a/d.json", "ä")
    assert store.read("a/b/c.json") == "two, longer"
    assert store.names("a") == ("b", "d.json")
    assert [path.name for path in (tmp_path / "not yet" / "a" / "b").iterdir()] == ["c.json"]


def test_a_file_is_created_once_and_can_be_removed(store: FileStore) -> None:
    """Who creates it knows; what is there stays as it is, and nothing is left beside it."""
    assert store.create("a/b.json", "one")
    assert not store.create("a/b.json", "two")
    assert store.read("a/b.json") == "one"
    assert store.names("a") == ("b.json",)
    store.remove("a/b.json")
    store.remove("a/b.json")
    assert store.create("a/b.json", "three")
    assert store.read("a/b.json") == "three"


def test_urls_are_what_spark_takes(tmp_path: Path) -> None:
    """Without escapes, which Hadoop would look for in the name."""
    assert LocalFiles(tmp_path / "a b").url("c") == f"file://{tmp_path}/a b/c"

"""The folder of this machine: what appears, appears whole and over nothing."""

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
    assert store.files("a") == {}
    assert store.read("a/b") is None
    store.delete("a")


def test_files_are_written_whole_and_found_again(store: FileStore, tmp_path: Path) -> None:
    """Nothing is left beside them."""
    store.write("a/b/c.json", "one")
    store.write("a/b/c.json", "two, longer")
    store.write("a/d.json", "ä")
    assert store.read("a/b/c.json") == "two, longer"
    assert store.names("a") == ("b", "d.json")
    assert store.files("a") == {"b/c.json": 11, "d.json": 2}
    assert [path.name for path in (tmp_path / "not yet" / "a" / "b").iterdir()] == ["c.json"]


def test_a_folder_is_published_once(store: FileStore) -> None:
    """The second one to come is refused, and the first stays as it was."""
    store.write("staged/1/x", "first")
    store.write("staged/2/x", "second")
    store.publish("staged/1", "batch=0")
    assert store.names() == ("batch=0", "staged")
    with pytest.raises(FileExistsError):
        store.publish("staged/2", "batch=0")
    assert store.read("batch=0/x") == "first"
    assert store.read("staged/2/x") == "second"
    with pytest.raises(FileNotFoundError):
        store.publish("staged/1", "batch=1")


def test_deleting_takes_all_that_is_below(store: FileStore) -> None:
    """Files and folders alike."""
    store.write("a/b/c", "")
    store.write("a/d", "")
    store.delete("a/b")
    store.delete("a/d")
    assert store.names("a") == ()


def test_urls_are_what_spark_takes(tmp_path: Path) -> None:
    """Without escapes, which Hadoop would look for in the name."""
    assert LocalFiles(tmp_path / "a b").url("c") == f"file://{tmp_path}/a b/c"

"""Versions and their pointer, killed at every step: a reader always finds a whole version. Pure."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas_pipelines.snapshot import manifest as manifests
from barnabas_pipelines.snapshot.manifest import Manifest, ManifestError
from barnabas_pipelines.snapshot.table import (
    NoSnapshotError,
    SnapshotTable,
    TableInUseError,
    latest_snapshot,
)
from barnabas_pipelines.storage.file_store import LocalFiles
from tests.pipelines.mortal_files import Killed, MortalFiles

KEPT = 1


def manifest_of(number: int, rows: dict[str, int]) -> Manifest:
    """A version whose rows are in one JSON file."""
    return Manifest(
        number=number,
        topic="t",
        topic_id="id",
        next_offsets={0: sum(rows.values())},
        complete_at_ms=number,
        row_count=len(rows),
        has_headers=False,
        decoding="",
    )


def advance(store: Any) -> None:
    """A run: the last rows, and one key that counts the runs."""
    table = SnapshotTable(store)
    last = table.current()
    old = {} if last is None else read(Path(table.url(last.number).removeprefix("file://")))
    number = table.begin()
    rows = {**old, "runs": old.get("runs", 0) + 1}
    folder = Path(table.building_url(number).removeprefix("file://"))
    assert not folder.exists(), "what a dead run has left is in the way"
    folder.mkdir(parents=True)
    (folder / "part-0.json").write_text(json.dumps(rows))
    table.finish(manifest_of(number, rows))
    table.prune(KEPT)


def read(version: Path) -> dict[str, int]:
    """The rows of a version, which must be those that its manifest speaks of."""
    rows: dict[str, int] = json.loads((version / "part-0.json").read_text())
    told = Manifest.parse((version / manifests.NAME).read_text())
    assert (told.row_count, told.next_offsets[0]) == (len(rows), sum(rows.values()))
    return rows


def seams(tmp_path: Path) -> Iterator[tuple[int, bool]]:
    """Before and after each change of a run that follows two others."""
    store = LocalFiles(tmp_path / "counted")
    for _ in range(3):
        advance(store)
    counted = MortalFiles(store)
    advance(counted)
    assert len(counted.changes) >= 5, counted.changes
    for number in range(len(counted.changes)):
        yield number, False
        yield number, True


def test_killed_anywhere_a_run_has_done_all_or_nothing(tmp_path: Path) -> None:
    """Every seam, and every pair of them: the run after a dead one may die as well."""
    cuts = list(seams(tmp_path))
    outcomes = set()
    for index, first in enumerate(cuts):
        for second in (None, *cuts):
            root = tmp_path / f"{index}-{second}"
            store = LocalFiles(root)
            advance(store)
            advance(store)
            done = 2
            for cut in (first, second):
                if cut is None:
                    continue
                with pytest.raises(Killed):
                    advance(MortalFiles(store, cut[0], is_after=cut[1]))
                now = read(Path(latest_snapshot(str(root))))["runs"]
                assert now in (done, done + 1), f"{cut} of {cuts}"
                outcomes.add(now - done)
                done = now
            advance(store)
            assert read(Path(latest_snapshot(str(root)))) == {"runs": done + 1}
            versions = [one for one in store.names("versions") if one.isdecimal()]
            assert versions == [f"{done:08d}", f"{done + 1:08d}"], "no more are kept"
            assert store.names("building") == ()
    assert outcomes == {0, 1}


def test_earlier_versions_stay_for_their_readers(tmp_path: Path) -> None:
    """A reader that has taken a folder reads on while the next version is made."""
    store = LocalFiles(tmp_path)
    advance(store)
    taken = Path(latest_snapshot(str(tmp_path)))
    advance(store)
    assert read(taken) == {"runs": 1}
    assert read(Path(latest_snapshot(tmp_path.as_uri()))) == {"runs": 2}


def test_a_table_without_a_version_says_so(tmp_path: Path) -> None:
    """Before the first run there is nothing to read, which is not an empty table."""
    with pytest.raises(NoSnapshotError, match=str(tmp_path)):
        latest_snapshot(str(tmp_path))


def test_two_runs_do_not_write_to_one_table(tmp_path: Path) -> None:
    """A CronJob that starts while the last one runs must not delete what that one is building."""
    table = SnapshotTable(LocalFiles(tmp_path))
    with (
        table.locked(),
        pytest.raises(TableInUseError),
        SnapshotTable(LocalFiles(tmp_path)).locked(),
    ):
        pass
    with table.locked():
        pass


def test_a_version_is_never_replaced(tmp_path: Path) -> None:
    """Where no lock is to be had, the second of two runs fails instead of mixing its files in."""
    store = LocalFiles(tmp_path)
    advance(store)
    table = SnapshotTable(store)
    number = table.begin()
    for runs in (2, 3):
        folder = Path(table.building_url(number).removeprefix("file://"))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "part-0.json").write_text(json.dumps({"runs": runs}))
        if runs == 2:
            table.finish(manifest_of(number, {"runs": runs}))
        else:
            with pytest.raises(TableInUseError):
                table.finish(manifest_of(number, {"runs": runs}))
    assert read(Path(latest_snapshot(str(tmp_path)))) == {"runs": 2}


def test_a_broken_pointer_is_told_and_can_be_rebuilt(tmp_path: Path) -> None:
    """Somebody's editor, or a file system's repair: versions are kept until a new one is whole."""
    store = LocalFiles(tmp_path)
    advance(store)
    (tmp_path / "CURRENT").write_text("")
    table = SnapshotTable(store)
    with pytest.raises(ManifestError, match="holds no number"):
        table.current()
    assert table.begin() == 2
    assert "00000001" in store.names("versions")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 2}', '{"format": 1, "topic": "t"}'])
def test_an_unreadable_manifest_says_what_to_do(text: str) -> None:
    """It is a file among others, and people copy files."""
    with pytest.raises(ManifestError, match="--rebuild"):
        Manifest.parse(text)


def test_a_manifest_comes_back_as_it_was_written() -> None:
    """Partitions are numbers, though JSON has only text for names."""
    manifest = manifest_of(7, {"a": 3})
    assert Manifest.parse(manifest.text()) == manifest

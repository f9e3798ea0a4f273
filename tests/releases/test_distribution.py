"""What a release is made of, without building it."""

import hashlib
import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml

from releases.distribution import (
    ROOT,
    ReleaseError,
    changes,
    check_sources,
    check_tree,
    write_checksums,
)
from releases.images import version

CHANGELOG = """# Changelog

## Unreleased

## 1.2.0 (2026-01-02)

### Added
- One thing.

## 1.2

- Another.
"""


def test_the_chart_and_its_images_have_the_version_of_the_packages() -> None:
    """One place has the version: whoever installs the chart gets the images made with it."""
    chart = yaml.safe_load((ROOT / "charts" / "barnabas" / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (version(), version())


def test_the_changelog_of_this_tree_knows_its_version() -> None:
    """Otherwise `make dist` would refuse the commit that is to be tagged."""
    text = changes((ROOT / "CHANGELOG.md").read_text(), version())
    assert text.startswith(f"## {version()}")


def test_changes_end_where_the_next_version_begins() -> None:
    """A heading may have a date; a version that begins alike is another one."""
    assert changes(CHANGELOG, "1.2.0") == "## 1.2.0 (2026-01-02)\n\n### Added\n- One thing.\n"
    assert changes(CHANGELOG, "1.2") == "## 1.2\n\n- Another.\n"


@pytest.mark.parametrize("missing", ["1.2.1", "1x2", "Unreleased", "1"])
def test_changes_refuse_a_version_without_a_text(missing: str) -> None:
    """A release nobody has described is a mistake."""
    with pytest.raises(ReleaseError, match=missing):
        changes(CHANGELOG, missing)


def test_checksums_are_those_that_sha256sum_checks(tmp_path: Path) -> None:
    """Of every file but themselves, also when they are written again."""
    (tmp_path / "b.whl").write_bytes(b"wheel")
    (tmp_path / "a.tgz").write_bytes(b"chart")
    write_checksums(tmp_path)
    written = write_checksums(tmp_path).read_text()
    assert written == "".join(
        f"{hashlib.sha256(content).hexdigest()}  {name}\n"
        for name, content in (("a.tgz", b"chart"), ("b.whl", b"wheel"))
    )
    check = ["sha256sum", "--check", "--quiet", "SHA256SUMS"]
    assert subprocess.run(check, cwd=tmp_path, check=False).returncode == 0
    (tmp_path / "a.tgz").write_bytes(b"other")
    assert subprocess.run(check, cwd=tmp_path, check=False, capture_output=True).returncode == 1


def test_what_is_not_committed_is_no_part_of_a_release(tmp_path: Path) -> None:
    """The archive of the sources takes all that lies there, such as a file with a password."""

    def git(*words: str) -> None:
        who = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org"]
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    (tmp_path / ".gitignore").write_text("data/\n")
    git("add", ".gitignore")
    git("commit", "--message", "one")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "log").touch()
    check_tree(tmp_path)
    (tmp_path / "client.properties").touch()
    with pytest.raises(ReleaseError, match=r"commit or remove .*: client\.properties$"):
        check_tree(tmp_path)
    git("add", "client.properties")
    with pytest.raises(ReleaseError, match=r"client\.properties"):
        check_tree(tmp_path)


def test_the_sources_are_just_what_git_keeps(tmp_path: Path) -> None:
    """A file that this clone alone ignores is in no list of changes, and in the archive.

    A folder that a link of the tree leads to was in it by the link's name alone.
    """
    archive = tmp_path / "barnabas-1.tar.gz"

    def pack(*names: str) -> None:
        with tarfile.open(archive, "w:gz") as files:
            for name in names:
                files.addfile(tarfile.TarInfo(f"barnabas-1/{name}"))

    tracked = ["README.md", "operator/crds"]
    pack("README.md", "PKG-INFO", "operator/crds/topic.yaml")
    check_sources(archive, tracked)
    pack("README.md", "client.properties")
    with pytest.raises(ReleaseError, match=r"client\.properties$"):
        check_sources(archive, tracked)
    pack("README.md")
    with pytest.raises(ReleaseError, match=r"not in the archive of the sources: operator/crds$"):
        check_sources(archive, tracked)

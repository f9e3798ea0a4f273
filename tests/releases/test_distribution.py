"""What a release is made of, without building it."""

import hashlib
import subprocess
from pathlib import Path

import pytest
import yaml

from releases.distribution import ROOT, ReleaseError, changes, version, write_checksums

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

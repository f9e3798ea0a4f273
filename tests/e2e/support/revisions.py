"""An earlier revision of this repository, to be upgraded from: its files, out of git.

It is the last release, by its tag. Before there is any it is the revision named here, the last one
whose chart and operator were tried as a whole. `E2E_PREVIOUS` names another.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
UNTAGGED = "4bb6222"


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """A commit, and a folder with its files."""

    commit: str
    tree: Path

    @property
    def chart(self) -> Path:
        return self.tree / "charts" / "barnabas"


def previous_revision(folder: Path) -> Revision | None:
    """The revision to upgrade from, kept in the folder; None where git does not know it, because
    the clone is shallow or this is no clone."""
    name = os.environ.get("E2E_PREVIOUS") or _last_tag() or UNTAGGED
    commit = _git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    if not commit:
        return None
    tree = folder / f"previous-{commit[:12]}"
    if not tree.exists():
        for older in folder.glob("previous-*"):
            shutil.rmtree(older)
        partial = folder / "previous-partial"
        partial.mkdir(parents=True)
        archive = subprocess.run(
            ["git", "archive", commit], cwd=REPOSITORY, capture_output=True, check=True
        )
        subprocess.run(
            ["tar", "-x", "-C", str(partial)], input=archive.stdout, check=True, timeout=60
        )
        partial.rename(tree)
    return Revision(commit=commit, tree=tree)


def _last_tag() -> str:
    """The tag before the one that is checked out, if any."""
    return _git("describe", "--tags", "--abbrev=0", "--match", "v*", "HEAD^")


def _git(*arguments: str) -> str:
    """What git says, empty where it refuses."""
    done = subprocess.run(
        ["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else ""

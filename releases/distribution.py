# ruff: noqa: INP001 (a folder of programs, not a package)
"""Builds everything that a release consists of: `python -m releases.distribution [FOLDER]`.

| file | what it is |
|---|---|
| barnabas-V-py3-none-any.whl | the packages as plain Python, for any platform |
| barnabas-V-cpXY-cpXY-linux_*.whl | the same, compiled for this platform and Python |
| barnabas-V.tar.gz | the archive of the sources |
| barnabas-chart-V.tgz | the Helm chart |
| barnabas-TARGET-V-MACHINE.oci.tar | the images as OCI archives; `--no-images` leaves them out |
| barnabas-TARGET-V.cdx.json | a bill of materials (CycloneDX) of each image's lock file |
| CHANGELOG-V.md | what has changed since the release before |
| SHA256SUMS | checksums of all of these |

The version is that of `pyproject.toml`, and nowhere else: the chart's is generated from it. The
folder is emptied first and `SHA256SUMS` written last, so a folder with it is complete. Nothing is
uploaded or tagged. `docs/releasing.md` tells the whole procedure.
"""

import argparse
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from releases import images
from releases.images import LOCAL_REGISTRY, TARGETS, version
from tests.support.helm import built_helm

ROOT: Final = Path(__file__).resolve().parent.parent
CHART: Final = ROOT / "charts" / "barnabas"
CHECKSUMS: Final = "SHA256SUMS"
_PATHS_SHOWN: Final = 5
# What hatchling adds to the sources.
_PACKAGE_INFORMATION: Final = "PKG-INFO"


class ReleaseError(Exception):
    """The tree is not fit for a release; the text says what to mend."""


def changes(text: str, of_version: str) -> str:
    """The section of the changelog about a version, with its heading.

    Raises: ReleaseError if there is none, or nothing in it.
    """
    heading = re.compile(rf"^## {re.escape(of_version)}(?: .*)?$", re.MULTILINE)
    found = heading.search(text)
    if found is None:
        raise ReleaseError(f"CHANGELOG.md has no section '## {of_version}'")
    following = re.search(r"^## ", text[found.end() :], re.MULTILINE)
    body = text[found.end() : found.end() + following.start() if following else None]
    if not body.strip():
        raise ReleaseError(f"the section '## {of_version}' of CHANGELOG.md is empty")
    return f"{found[0]}\n\n{body.strip()}\n"


def check_tree(root: Path) -> None:
    """Refuse a tree that is not exactly its commit's, but for what git ignores.

    Files that git does not know would be in the archive of the sources, whatever they hold.
    Raises: ReleaseError.
    """
    changed = _output(["git", "-C", str(root), "status", "--porcelain"]).splitlines()
    if changed:
        paths = ", ".join(line.split(maxsplit=1)[1] for line in changed[:_PATHS_SHOWN])
        more = " and more" if len(changed) > _PATHS_SHOWN else ""
        raise ReleaseError(f"commit or remove what is not committed: {paths}{more}")


def check_sources(archive: Path, tracked: Iterable[str]) -> None:
    """Refuse an archive of the sources that has not just the files that git keeps.

    What only this clone's or this person's settings of git ignore is in no list of changes.
    Raises: ReleaseError.
    """
    tracked = list(tracked)
    kept = {_PACKAGE_INFORMATION, *tracked}
    with tarfile.open(archive) as files:
        names = [PurePosixPath(*PurePosixPath(file.name).parts[1:]) for file in files]
    # A folder that git keeps as a link is there as a folder.
    strangers = [str(name) for name in names if not kept & {str(name), *map(str, name.parents)}]
    if strangers:
        raise ReleaseError(f"in the archive of the sources, and not kept by git: {strangers[0]}")
    there = {str(path) for name in names for path in (name, *name.parents)}
    missing = [name for name in tracked if name not in there]
    if missing:
        raise ReleaseError(f"kept by git, and not in the archive of the sources: {missing[0]}")


def write_checksums(folder: Path) -> Path:
    """Write what `sha256sum --check` reads, of all files of the folder."""
    lines = []
    for path in sorted(folder.iterdir()):
        if path.name != CHECKSUMS:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            lines.append(f"{digest}  {path.name}\n")
    checksums = folder / CHECKSUMS
    checksums.write_text("".join(lines), encoding="utf-8")
    return checksums


def build_packages(folder: Path) -> None:
    """Both wheels and the archive of the sources."""
    run = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
    _run([*run, "--target", "sdist", "--target", "wheel"])
    tracked = _output(["git", "ls-files"]).splitlines()
    check_sources(folder / f"barnabas-{version()}.tar.gz", tracked)
    _run([*run, "--target", "wheel"], {"HATCH_BUILD_HOOKS_ENABLE": "1"})


def build_chart(folder: Path) -> None:
    """The chart as Helm installs it from a file or a registry."""
    _run([str(built_helm()), "package", str(CHART), "--destination", str(folder)])
    packaged = folder / f"barnabas-{version()}.tgz"
    packaged.rename(folder / f"barnabas-chart-{version()}.tgz")


def build_materials(folder: Path) -> None:
    """A bill of materials of each image, from the lock file that the image is made of."""
    for target in TARGETS:
        output = folder / f"barnabas-{target}-{version()}.cdx.json"
        lock_file = ROOT / "requirements" / f"{target}.txt"
        program = Path(sys.executable).with_name("cyclonedx-py")
        _run(
            [
                str(program),
                "requirements",
                "--pyproject",
                str(ROOT / "pyproject.toml"),
                "--mc-type",
                "application",
                "--output-reproducible",
                "--output-file",
                str(output),
                str(lock_file),
            ]
        )


def build_images(folder: Path, tool: str, options: Sequence[str]) -> None:
    """The images of the Dockerfile, as `make images` builds them."""
    images.build(tool, TARGETS, LOCAL_REGISTRY, options)
    for target in TARGETS:
        archive = folder / f"barnabas-{target}-{version()}-{platform.machine()}.oci.tar"
        images.write_oci(tool, target, archive)


def build(folder: Path, *, tool: str | None, options: Sequence[str] = ()) -> None:
    """Fill the folder, with images if there is a tool for them; what was in it goes first.

    Raises: ReleaseError before anything is built, if the tree is not the commit's or the
        changelog does not know the version.
    """
    check_tree(ROOT)
    section = changes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version())
    # Archives bear the time of the commit, so that two builds of it are equal.
    os.environ["SOURCE_DATE_EPOCH"] = _output(["git", "log", "-1", "--format=%ct"])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    build_packages(folder)
    build_chart(folder)
    build_materials(folder)
    (folder / f"CHANGELOG-{version()}.md").write_text(section, encoding="utf-8")
    if tool is not None:
        build_images(folder, tool, options)
    print(write_checksums(folder).read_text(encoding="utf-8"), end="")


def _run(command: list[str], environment: Mapping[str, str] | None = None) -> None:
    subprocess.run(command, cwd=ROOT, env={**os.environ, **(environment or {})}, check=True)


def _output(command: list[str]) -> str:
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


def main() -> int:
    """Build; the exit status is 1 if the tree is not fit for it."""
    parser = argparse.ArgumentParser(description="Builds the files of a release.")
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "dist")
    parser.add_argument("--no-images", action="store_true", help="leave out the images")
    parser.add_argument("--tool", choices=images.TOOLS, help="by default the first one that works")
    images.add_build_arguments(parser)
    arguments = parser.parse_args()
    try:
        tool = None if arguments.no_images else arguments.tool or images.found_tool()
        options = images.build_options(arguments.options, arguments.base)
        build(arguments.folder.resolve(), tool=tool, options=options)
    except (ReleaseError, images.ImageError) as error:
        print(f"No release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

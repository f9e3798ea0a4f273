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
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from barnabas_pipelines.jars import fetch_jars
from tests.support.helm import built_helm

ROOT: Final = Path(__file__).resolve().parent.parent
CHART: Final = ROOT / "charts" / "barnabas"
# The images, and the lock file of each.
TARGETS: Final = ("broker", "operator", "pipelines")
# To reach a package index over TLS from within; the image has certificates of its own.
_CERTIFICATES: Final = "--volume=/etc/ssl/certs:/etc/ssl/certs:ro"
CHECKSUMS: Final = "SHA256SUMS"


class ReleaseError(Exception):
    """The tree is not fit for a release; the text says what to mend."""


def version() -> str:
    """The version of all parts."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])


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


def build_images(folder: Path) -> None:
    """The images of the Dockerfile, built by buildah as the end-to-end tests build theirs."""
    fetch_jars(ROOT / "connector")
    _run(["bash", str(ROOT / "tests" / "e2e" / "lab" / "build.sh")])
    for target in TARGETS:
        _run(
            [
                "bash",
                str(ROOT / "tests" / "e2e" / "lab" / "image.sh"),
                "--oci",
                f"localhost/barnabas/{target}:{version()}",
                str(folder / f"barnabas-{target}-{version()}-{platform.machine()}.oci.tar"),
                _CERTIFICATES,
                "--target",
                target,
                "--file",
                str(ROOT / "Dockerfile"),
                str(ROOT),
            ]
        )


def build(folder: Path, *, has_images: bool) -> None:
    """Fill the folder; what was in it goes first.

    Raises: ReleaseError before anything is built, if the tree has uncommitted changes or the
        changelog does not know the version.
    """
    if _output(["git", "status", "--porcelain", "--untracked-files=no"]):
        raise ReleaseError("the tree has changes that are not committed")
    section = changes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version())
    # Archives bear the time of the commit, so that two builds of it are equal.
    os.environ["SOURCE_DATE_EPOCH"] = _output(["git", "log", "-1", "--format=%ct"])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    build_packages(folder)
    build_chart(folder)
    build_materials(folder)
    (folder / f"CHANGELOG-{version()}.md").write_text(section, encoding="utf-8")
    if has_images:
        build_images(folder)
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
    arguments = parser.parse_args()
    try:
        build(arguments.folder.resolve(), has_images=not arguments.no_images)
    except ReleaseError as error:
        print(f"No release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

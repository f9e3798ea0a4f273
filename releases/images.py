# ruff: noqa: INP001 (a folder of programs, not a package)
"""Builds the images with docker, podman or buildah, and loads them into a cluster of this machine.

    python3 -m releases.images build                    # broker and operator
    python3 -m releases.images build --target pipelines # needs Maven, for the jars of Spark
    python3 -m releases.images load --kind NAME         # or --minikube, --k3s, --containerd

An image is called `REGISTRY/barnabas-TARGET:VERSION`: the registry is `localhost` unless another
is given, the version that of `pyproject.toml`. The chart's values, the compose files and the
archives of a release have the same names. It needs Python 3.10 or newer, nothing else installed.

Not here: what is in an image (`Dockerfile`), the files of a release (`distribution.py`), and the
images of the end-to-end tests, whose tags are digests of what they are made from.
"""

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
TARGETS: Final = ("broker", "operator", "pipelines")
"""The images of the Dockerfile."""
USUAL_TARGETS: Final = ("broker", "operator")
TOOLS: Final = ("docker", "podman", "buildah")
LOCAL_REGISTRY: Final = "localhost"
"""The registry in the name of an image that was never pushed; podman and buildah say it as well."""


class ImageError(Exception):
    """The images cannot be built or loaded; the text says what to do."""


def version() -> str:
    """The version of all parts."""
    # Not by tomllib: Python 3.10, which has none, is enough to build images.
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    found = re.search(r'^version = "([^"]+)"$', text, re.MULTILINE)
    assert found is not None, "pyproject.toml has no version"
    return found[1]


def repository(target: str, registry: str = LOCAL_REGISTRY) -> str:
    """An image's name without its tag, as `operator.image.repository` of the chart has it."""
    return f"{registry}/barnabas-{target}"


def image_name(target: str, registry: str = LOCAL_REGISTRY) -> str:
    """An image's name with its tag."""
    return f"{repository(target, registry)}:{version()}"


def found_tool() -> str:
    """The first of docker, podman and buildah that works here.

    Raises: ImageError if none does. A docker without its daemon does not work.
    """
    for tool in TOOLS:
        if shutil.which(tool) and _succeeds([tool, "info"]):
            return tool
    raise ImageError(
        "no docker (with its daemon running), podman or buildah was found; "
        "install one, for example: apt-get install buildah"
    )


def build_command(tool: str, target: str, registry: str, options: Sequence[str]) -> list[str]:
    """The command that builds one image from this tree."""
    build = ["bud", "--layers"] if tool == "buildah" else ["build"]
    name = image_name(target, registry)
    return [tool, *build, *options, "--target", target, "--tag", name, str(ROOT)]


def save_command(tool: str, name: str, archive: Path) -> list[str]:
    """The command that writes one image into an archive in docker's form, which all take."""
    if tool == "buildah":
        return [tool, "push", name, f"docker-archive:{archive}:{name}"]
    form = ["--format", "docker-archive"] if tool == "podman" else []
    return [tool, "save", *form, "--output", str(archive), name]


def oci_command(tool: str, name: str, archive: Path) -> list[str]:
    """The command that writes one image into an archive of the Open Container Initiative.

    Docker writes them since release 25.
    """
    if tool == "buildah":
        return [tool, "push", name, f"oci-archive:{archive}:{name}"]
    form = ["--format", "oci-archive"] if tool == "podman" else []
    return [tool, "save", *form, "--output", str(archive), name]


def has_image(tool: str, name: str) -> bool:
    """Whether the tool has an image of that name."""
    kind = ["inspect", "--type", "image"] if tool == "buildah" else ["image", "inspect"]
    return _succeeds([tool, *kind, name])


def build(tool: str, targets: Sequence[str], registry: str, options: Sequence[str]) -> None:
    """Build the images one after the other; they share their first stages."""
    if "pipelines" in targets:
        _fetch_jars()
    for target in targets:
        _run(build_command(tool, target, registry, options))
    print("built with", f"{tool}:")
    for target in targets:
        print(f"  {image_name(target, registry)}")


def write_oci(tool: str, target: str, archive: Path) -> None:
    """Write an image that was built into an archive, in place of one that is there."""
    archive.unlink(missing_ok=True)
    _run(oci_command(tool, image_name(target), archive))


def build_options(options: str, base: str | None) -> list[str]:
    """The options of the tool's `build`, from how they are given on the command line."""
    return [*shlex.split(options), *(["--build-arg", f"BASE={base}"] if base else [])]


def load(tool: str, targets: Sequence[str], registry: str, into: Sequence[str]) -> None:
    """Give the nodes of a cluster the images; `into` is a command that takes an archive last.

    Raises: ImageError before anything is loaded, if an image was not built.
    """
    names = [image_name(target, registry) for target in targets]
    missing = [name for name in names if not has_image(tool, name)]
    if missing:
        raise ImageError(f"{tool} has no image {', '.join(missing)}; build it with: make images")
    if not shutil.which(into[0]):
        raise ImageError(f"{into[0]} is not on the PATH")
    with tempfile.TemporaryDirectory(prefix="barnabas-images-") as folder:
        for target, name in zip(targets, names, strict=True):
            archive = Path(folder) / f"{target}.tar"
            _run(save_command(tool, name, archive))
            _run([part.replace("{archive}", str(archive)) for part in into])
            print(f"loaded {name}")


def _into(arguments: argparse.Namespace) -> list[str]:
    """What loads an archive into the cluster that was named."""
    if arguments.kind is not None:
        return ["kind", "load", "image-archive", "{archive}", "--name", arguments.kind]
    if arguments.minikube is not None:
        return ["minikube", "--profile", arguments.minikube, "image", "load", "{archive}"]
    as_root = [] if os.geteuid() == 0 else ["sudo"]
    if arguments.k3s:
        return [*as_root, "k3s", "ctr", "images", "import", "{archive}"]
    ctr = ["ctr", "--address", arguments.containerd, "--namespace", "k8s.io"]
    return [*as_root, *ctr, "images", "import", "{archive}"]


def _fetch_jars() -> None:
    """The jars of Spark's connector, which the Dockerfile takes from `connector/`."""
    if not shutil.which("mvn"):
        raise ImageError(
            "the image pipelines has jars that come from Maven; "
            "install it, for example: apt-get install maven"
        )
    homes = (ROOT / home for home in ("protocol", "client", "pipelines"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, homes))}
    command = [sys.executable, "-m", "barnabas_pipelines.jars", str(ROOT / "connector")]
    subprocess.run(command, cwd=ROOT, env=environment, check=True)


def _succeeds(command: Sequence[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _run(command: Sequence[str]) -> None:
    print("+", shlex.join(command), flush=True)
    # Docker's older builder makes all stages above the one that is wanted, Spark's too.
    subprocess.run(command, env={**os.environ, "DOCKER_BUILDKIT": "1"}, check=True)


def add_build_arguments(parser: argparse.ArgumentParser) -> None:
    """What everybody may say who builds images."""
    parser.add_argument("--base", help="the Debian 12 to build on, where there is no registry")
    parser.add_argument("--options", default="", help="more options of the tool's build")


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--tool", choices=TOOLS, help="by default the first one that works")
    common.add_argument("--registry", default=LOCAL_REGISTRY, help="the first part of the names")
    common.add_argument("--target", action="append", choices=TARGETS, help="may be repeated")
    parser = argparse.ArgumentParser(prog="releases.images", description="Builds and loads images.")
    actions = parser.add_subparsers(dest="action", required=True)
    building = actions.add_parser("build", parents=[common], help="build images from this tree")
    add_build_arguments(building)
    loading = actions.add_parser("load", parents=[common], help="load images into a cluster")
    into = loading.add_mutually_exclusive_group(required=True)
    into.add_argument("--kind", metavar="NAME", help="a cluster of kind")
    into.add_argument("--minikube", metavar="PROFILE", help="a cluster of minikube")
    into.add_argument("--k3s", action="store_true", help="k3s on this machine")
    into.add_argument("--containerd", metavar="SOCKET", help="a node's containerd")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> int:
    """Build or load; the exit status is 1 if that is not possible here."""
    arguments = _arguments(given)
    targets = arguments.target or USUAL_TARGETS
    try:
        tool = arguments.tool or found_tool()
        if arguments.action == "build":
            options = build_options(arguments.options, arguments.base)
            build(tool, targets, arguments.registry, options)
        else:
            load(tool, targets, arguments.registry, _into(arguments))
    except ImageError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"Error: exit status {error.returncode}: {shlex.join(error.cmd)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

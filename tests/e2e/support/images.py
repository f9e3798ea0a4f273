"""The images that the tests run: built from this tree, and loaded into the nodes of the lab.

    python -m tests.e2e.support.images    # only builds them, for a cluster that is started later

An image's tag is a digest of all that it is made from, so an unchanged one is neither built nor
loaded again. In a cluster that is not the lab the images have to be there: `E2E_BROKER_IMAGE`,
`E2E_OPERATOR_IMAGE`, `E2E_JAVA_IMAGE` and, for Spark, `E2E_PIPELINES_IMAGE` name them.
"""

import hashlib
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from barnabas_pipelines.jars import fetch_jars
from tests.e2e.support.cluster import Cluster, lab_cache, run_script
from tests.e2e.support.revisions import REPOSITORY, Revision
from tests.support.apache_kafka import DEFAULT_VERSION
from tests.support.cache import run
from tests.support.java_tools import compile_java, maven_jars

BAD_BROKER = REPOSITORY / "tests" / "e2e" / "images" / "bad-broker"
JAVA_CLIENT = REPOSITORY / "tests" / "e2e" / "images" / "java-client"
# What the Dockerfile copies, but for the pipelines.
SOURCES = (
    "Dockerfile",
    "LICENSE",
    "NOTICE",
    "README.md",
    "build_hook.py",
    "pyproject.toml",
    "requirements",
    "protocol",
    "client",
    "broker",
    "operator",
    "console",
    "cli",
    "crds",
)
BUILD_SECONDS = 1800
# To reach a package index over TLS from within; the image has certificates of its own.
_CERTIFICATES = "--volume=/etc/ssl/certs:/etc/ssl/certs:ro"


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """Names of images that the nodes have."""

    broker: str
    operator: str
    java_client: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageBuild:
    """An image that can be built here: its name, and what buildah is told."""

    name: str
    arguments: list[str]

    @property
    def file_name(self) -> str:
        return self.name.removeprefix("localhost/").replace(":", "-")

    def archive(self, cache: Path) -> Path:
        """The image as a file, built if it is not there yet."""
        archive = cache / "built" / f"{self.file_name}.tar"
        if not archive.exists():
            arguments = [self.name, str(archive), *self.arguments]
            run_script("image.sh", *arguments, timeout_seconds=BUILD_SECONDS)
            _forget_older(archive)
        return archive


def provide_images(cluster: Cluster) -> Images:
    """Build and load what is not there yet."""
    if cluster.cache is None:
        return Images(
            broker=os.environ["E2E_BROKER_IMAGE"],
            operator=os.environ["E2E_OPERATOR_IMAGE"],
            java_client=os.environ["E2E_JAVA_IMAGE"],
        )
    return Images(
        broker=_provide(cluster, _from_this_tree("broker")),
        operator=_provide(cluster, _from_this_tree("operator")),
        java_client=_provide(cluster, _java_client(cluster.cache)),
    )


def pipelines_image(cluster: Cluster) -> str:
    """The image with Spark and the jobs; made for the tests that want it, because it is large."""
    if not cluster.is_lab:
        return os.environ["E2E_PIPELINES_IMAGE"]
    fetch_jars(REPOSITORY / "connector")
    return _provide(cluster, _from_this_tree("pipelines", "pipelines"))


def bad_broker(cluster: Cluster, name: str, does: str) -> str:
    """An image in which the broker's program does something else, written in the shell's words."""
    tag = digest_of([BAD_BROKER / "Dockerfile"], does)
    arguments = ["--build-arg", f"DOES={does}", "--file", str(BAD_BROKER / "Dockerfile")]
    image = ImageBuild(
        name=f"localhost/barnabas-e2e-bad-{name}:{tag}", arguments=[*arguments, str(BAD_BROKER)]
    )
    return _provide(cluster, image)


def previous_images(cluster: Cluster, previous: Revision, images: Images) -> Images:
    """The images of an earlier revision, which name it."""
    found = {}
    for target in ("broker", "operator"):
        name = f"localhost/barnabas-previous-{target}:{previous.commit[:12]}"
        image = ImageBuild(name=name, arguments=_build_arguments(previous.tree, target))
        found[target] = _provide(cluster, image)
    return Images(
        broker=found["broker"], operator=found["operator"], java_client=images.java_client
    )


def _build_arguments(tree: Path, target: str) -> list[str]:
    return [_CERTIFICATES, "--target", target, "--file", str(tree / "Dockerfile"), str(tree)]


def _from_this_tree(target: str, *more_sources: str) -> ImageBuild:
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--"]
    files = run([*listed, *SOURCES, *more_sources], directory=REPOSITORY).split()
    tag = digest_of((REPOSITORY / name for name in files), target)
    return ImageBuild(
        name=f"localhost/barnabas-{target}:{tag}", arguments=_build_arguments(REPOSITORY, target)
    )


def _java_client(cache: Path) -> ImageBuild:
    coordinates = [
        f"org.apache.kafka:kafka-clients:{DEFAULT_VERSION}",
        "org.slf4j:slf4j-nop:1.7.36",
    ]
    jars = maven_jars(f"kafka-clients-{DEFAULT_VERSION}", coordinates)
    sources = sorted(JAVA_CLIENT.glob("*.java"))
    classes = compile_java("e2e-client", sources, jars)
    tag = digest_of([JAVA_CLIENT / "Dockerfile", *sources], DEFAULT_VERSION)
    context = cache / "java-client"
    shutil.rmtree(context, ignore_errors=True)
    shutil.copytree(jars, context / "jars", ignore=shutil.ignore_patterns("pom.xml"))
    shutil.copytree(classes, context / "classes")
    return ImageBuild(
        name=f"localhost/barnabas-e2e-java:{tag}",
        arguments=["--file", str(JAVA_CLIENT / "Dockerfile"), str(context)],
    )


def _provide(cluster: Cluster, image: ImageBuild) -> str:
    """Have the image on the nodes of the lab; returns its name."""
    assert cluster.cache is not None
    assert cluster.state is not None
    archive = image.archive(cluster.cache)
    loaded = cluster.state / f"loaded-{image.file_name}"
    if not loaded.exists():
        run_script("image.sh", "--load", str(archive), timeout_seconds=600)
        loaded.touch()
    return image.name


def _forget_older(archive: Path) -> None:
    """Keep the archive of the last build only: they are large, and can be made again."""
    prefix = archive.name.rpartition("-")[0]
    for other in archive.parent.glob(f"{prefix}-*.tar"):
        if other != archive:
            other.unlink()


def digest_of(files: Iterable[Path], *more: str) -> str:
    """A short name for the contents of files, their names, and what else counts."""
    digest = hashlib.sha256("\0".join(more).encode())
    for path in sorted(files):
        if path.is_file():
            digest.update(f"\0{path.name}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def main() -> None:
    """Build what every end-to-end test needs."""
    cache = lab_cache()
    for image in (_from_this_tree("broker"), _from_this_tree("operator"), _java_client(cache)):
        image.archive(cache)


if __name__ == "__main__":
    main()

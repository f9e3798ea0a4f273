"""Java programs for the tests: jars by Maven into the cache, compilation, runs.

Versions are pinned by the caller. Maven is asked where it is configured to ask; nothing here
names an address.
"""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.support.cache import cached, digest, require_commands, run

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>barnabas</groupId><artifactId>cached-jars</artifactId><version>1</version>
<dependencies>
{dependencies}
</dependencies>
</project>
"""

_DEPENDENCY = (
    "<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
    "<version>{version}</version>{classifier}{exclusions}</dependency>"
)

_NO_TRANSITIVE = (
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
)


def require_java() -> None:
    """Makes sure that a JDK and Maven are on the machine."""
    require_commands({"java": "openjdk-17-jdk-headless", "javac": "openjdk-17-jdk-headless"})
    require_commands({"mvn": "maven"})


def maven_jars(name: str, coordinates: Sequence[str], *, is_transitive: bool = True) -> Path:
    """Returns a folder with the jars of `group:artifact:version` coordinates, and what they need.

    A classifier, such as `test`, may follow the version. Without `is_transitive` exactly the named
    jars are there.
    """
    exclusions = "" if is_transitive else _NO_TRANSITIVE
    dependencies = []
    for coordinate in coordinates:
        group, artifact, version, *more = coordinate.split(":")
        dependencies.append(
            _DEPENDENCY.format(
                group=group,
                artifact=artifact,
                version=version,
                classifier="".join(f"<classifier>{name}</classifier>" for name in more),
                exclusions=exclusions,
            )
        )
    pom = _POM.format(dependencies="\n".join(dependencies))

    def build(directory: Path) -> None:
        require_java()
        (directory / "pom.xml").write_text(pom)
        goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
        run(
            ["mvn", "-q", "-B", goal, "-DincludeScope=runtime", f"-DoutputDirectory={directory}"],
            directory=directory,
            timeout_seconds=1200,
        )

    return cached(f"jars-{name}-{digest(pom)}", build)


def compile_java(name: str, sources: Sequence[Path], jars: Path) -> Path:
    """Returns a folder with the classes of `sources`, compiled against the folder of jars."""
    texts = [source.read_text() for source in sources]

    def build(directory: Path) -> None:
        require_java()
        run(["javac", "-nowarn", "-cp", f"{jars}/*", "-d", directory, *sources])

    return cached(f"classes-{name}-{digest(str(jars), *texts)}", build)


def java_command(
    class_path: Sequence[Path], main_class: str, arguments: Sequence[str], heap: str = "256m"
) -> list[str]:
    """The command line of a short-lived Java program (a small heap, a quick start)."""
    path = os.pathsep.join(f"{p}/*" if any(p.glob("*.jar")) else str(p) for p in class_path)
    quick = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", f"-Xmx{heap}"]
    return ["java", *quick, "-cp", path, main_class, *arguments]


def run_java(
    class_path: Sequence[Path],
    main_class: str,
    arguments: Sequence[str],
    *,
    timeout_seconds: float = 120,
    heap: str = "256m",
) -> subprocess.CompletedProcess[str]:
    """Runs a Java program to its end; the caller judges code and output."""
    return subprocess.run(
        java_command(class_path, main_class, arguments, heap),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_seconds,
        check=False,
    )

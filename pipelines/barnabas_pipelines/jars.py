"""The jars beside Spark's own: of its Kafka connector and of Delta Lake; where they are kept.

    python -m barnabas_pipelines.jars             # into the cache, for `session`
    python -m barnabas_pipelines.jars DIRECTORY   # into a folder, such as $SPARK_HOME/jars

The connector needs four jars beside those that pip's pyspark has, Delta Lake two. They are named
one by one and without what they depend on, because Spark's own jars have the rest, sometimes
newer; of Delta's, what is left out is for catalogs that no job uses.

Not here: what starts Spark with them (`session.py`). Nothing names an address: Maven fetches from
where it is configured to. Invariant: a jar in the cache is complete: it is moved there whole.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from barnabas_pipelines.errors import PipelineError

SPARK_VERSION: Final = "4.2.0"
"""The release of pyspark and connector, which have to be the same."""

CONNECTOR: Final = (
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK_VERSION}",
    # Only delegation tokens are in it; the newest release that can be had everywhere.
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)
DELTA: Final = (
    "io.delta:delta-spark_4.2_2.13:4.4.0",
    "io.delta:delta-storage:4.4.0",
)
COORDINATES: Final = (*CONNECTOR, *DELTA)
DELTA_CLASS: Final = "io.delta.sql.DeltaSparkSessionExtension"
CONNECTOR_CLASS: Final = "org.apache.spark.sql.kafka010.KafkaSourceProvider"

_GOAL: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
_MAVEN_TIMEOUT_SECONDS: Final = 900
_POM: Final = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>barnabas</groupId><artifactId>spark-jars</artifactId><version>1</version>
<dependencies>
{dependencies}
</dependencies>
</project>
"""
_DEPENDENCY: Final = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>"
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    "</dependency>"
)


class JarsMissingError(PipelineError):
    """Jars that are needed are not here; says how to get them, or to go without."""


def cache_directory() -> Path:
    """Where fetched jars are kept."""
    configured = os.environ.get("BARNABAS_CACHE")
    root = Path(configured) if configured else Path.home() / ".cache" / "barnabas"
    return root / f"spark-jars-{SPARK_VERSION}"


def jar_names(coordinates: Sequence[str] = COORDINATES) -> list[str]:
    """The file names of jars, by default of all."""
    parts = (coordinate.split(":") for coordinate in coordinates)
    return [f"{artifact}-{version}.jar" for _, artifact, version in parts]


def find_jars(
    directory: Path | None = None, coordinates: Sequence[str] = COORDINATES
) -> list[Path]:
    """Jars, by default all: in `directory`, or else in Spark's own folder, or else in the cache.

    Raises: JarsMissingError.
    """
    folders = [directory] if directory is not None else [*spark_jar_folders(), cache_directory()]
    for folder in folders:
        paths = [folder / name for name in jar_names(coordinates)]
        if all(path.is_file() for path in paths):
            return paths
    places = ", ".join(str(folder) for folder in folders)
    raise JarsMissingError(
        f"the jars of Spark's Kafka connector and of Delta Lake are not in {places}; fetch them "
        "with: python -m barnabas_pipelines.jars (needs Maven). Topics can be read and written "
        'without any, with via="python"; tables cannot'
    )


def spark_jar_folders() -> list[Path]:
    """The folders whose jars Spark loads by itself: of $SPARK_HOME, and of pip's pyspark."""
    homes = []
    if home := os.environ.get("SPARK_HOME"):
        homes.append(Path(home))
    if (installed := pip_home()) is not None:
        homes.append(installed)
    return [home / "jars" for home in homes]


def pip_home() -> Path | None:
    """The home of Spark that pip's pyspark is; None if that is not installed."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]).resolve()


def fetch_jars(directory: Path | None = None) -> list[Path]:
    """Fetch what is missing with Maven into `directory`, by default the cache.

    Several processes may do so at once: each moves whole files into place.
    Raises: JarsMissingError if Maven is missing or fails.
    """
    # Maven works in a folder of its own, so it needs the whole path.
    target = (directory or cache_directory()).resolve()
    try:
        return find_jars(target)
    except JarsMissingError:
        target.mkdir(parents=True, exist_ok=True)
    # Beside the target, so that moving a jar is a rename.
    with tempfile.TemporaryDirectory(dir=target, prefix=".fetching-") as name:
        work = Path(name)
        _run_maven(work)
        for jar in jar_names():
            (work / jar).replace(target / jar)
    return find_jars(target)


def _run_maven(directory: Path) -> None:
    """Leave the jars in the directory."""
    if shutil.which("mvn") is None:
        raise JarsMissingError("fetching jars needs Maven: apt-get install maven")
    dependencies = "\n".join(_DEPENDENCY.format(*row.split(":")) for row in COORDINATES)
    (directory / "pom.xml").write_text(_POM.format(dependencies=dependencies), encoding="utf-8")
    command = ["mvn", "-q", "-B", _GOAL, f"-DoutputDirectory={directory}"]
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_MAVEN_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise JarsMissingError(f"Maven did not end in {_MAVEN_TIMEOUT_SECONDS} s") from None
    missing = [name for name in jar_names() if not (directory / name).is_file()]
    if done.returncode != 0 or missing:
        output = done.stdout.decode(errors="replace")[-2000:]
        raise JarsMissingError(f"Maven could not fetch {', '.join(missing)}:\n{output}")


def main(arguments: Sequence[str]) -> int:
    """Fetch the jars and print where they are; the exit code."""
    if len(arguments) > 1 or any(argument.startswith("-") for argument in arguments):
        print("usage: python -m barnabas_pipelines.jars [DIRECTORY]", file=sys.stderr)  # noqa: T201
        return 2
    try:
        paths = fetch_jars(Path(arguments[0]) if arguments else None)
    except JarsMissingError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    for path in paths:
        print(path)  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

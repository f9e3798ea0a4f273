"""The jars beside Spark's own: which they are, where they are, what is said without them."""

import subprocess
import sys
from pathlib import Path

import pytest

from barnabas_pipelines import jars
from barnabas_pipelines.jars import CONNECTOR, JarsMissingError, fetch_jars, find_jars, jar_names


@pytest.fixture(autouse=True)
def empty_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BARNABAS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))


def put_jars(directory: Path) -> list[Path]:
    directory.mkdir(parents=True)
    paths = [directory / name for name in jar_names()]
    for path in paths:
        path.touch()
    return paths


def test_exactly_six_jars_are_named() -> None:
    """What they depend on is in Spark already, sometimes newer: it must not be there twice."""
    assert jar_names() == [
        "spark-sql-kafka-0-10_2.13-4.2.0.jar",
        "spark-token-provider-kafka-0-10_2.13-4.0.0.jar",
        "kafka-clients-3.9.2.jar",
        "commons-pool2-2.13.1.jar",
        "delta-spark_4.2_2.13-4.4.0.jar",
        "delta-storage-4.4.0.jar",
    ]


def test_spark_s_own_folder_comes_before_the_cache(tmp_path: Path) -> None:
    """In the image they are in $SPARK_HOME/jars; on a laptop in the cache."""
    cached = put_jars(jars.cache_directory())
    assert find_jars() == cached
    own = put_jars(tmp_path / "spark" / "jars")
    assert find_jars() == own
    assert fetch_jars(tmp_path / "spark" / "jars") == own


def test_the_connector_is_found_without_delta_lake(tmp_path: Path) -> None:
    """A program of one's own that writes no tables needs four jars."""
    for path in put_jars(tmp_path / "spark" / "jars"):
        if path.name.startswith("delta"):
            path.unlink()
    assert [path.name for path in find_jars(coordinates=CONNECTOR)] == jar_names(CONNECTOR)
    with pytest.raises(JarsMissingError, match="Delta Lake"):
        find_jars()


def test_missing_jars_are_an_error_that_says_both_ways_out(tmp_path: Path) -> None:
    """A fetch of one jar too few counts as none: Spark would fail later, in a worker."""
    put_jars(tmp_path / "some")[-1].unlink()
    with pytest.raises(JarsMissingError, match=r"python -m barnabas_pipelines\.jars.*via=.python"):
        find_jars(tmp_path / "some")


def test_the_command_says_what_is_missing(tmp_path: Path) -> None:
    """Without Maven there is one line and the exit code 1; wrong use is 2."""
    command = [sys.executable, "-m", "barnabas_pipelines.jars"]
    environment = {"BARNABAS_CACHE": str(tmp_path / "cache"), "PATH": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "fetching jars needs Maven: apt-get install maven\n"
    wrong = subprocess.run([*command, "--help"], env=environment, capture_output=True, check=False)
    assert wrong.returncode == 2


def test_a_folder_may_be_named_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Maven works in a folder of its own, where a path that is not whole meant another place."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "mvn").write_text(
        "#!/bin/sh\n"
        "for it; do case $it in -DoutputDirectory=*) to=${it#*=};; esac; done\n"
        f'mkdir -p "$to"; cd "$to"; touch {" ".join(jar_names())}\n'
    )
    (programs / "mvn").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    assert fetch_jars(Path("connector")) == [tmp_path / "connector" / name for name in jar_names()]

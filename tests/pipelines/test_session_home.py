"""The home that Spark is started in: all of the installed one but the archive of its modules."""

import os
from pathlib import Path

import pytest

from barnabas_pipelines import jars
from barnabas_pipelines.session import home_without_zip


@pytest.fixture(name="installed")
def an_installed_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What matters of pip's pyspark, and a cache of its own."""
    home = tmp_path / "site-packages" / "pyspark"
    for name in ("bin", "jars", "python/lib"):
        (home / name).mkdir(parents=True)
    (home / "version.py").touch()
    monkeypatch.setattr(jars, "pip_home", lambda: home)
    monkeypatch.setenv("BARNABAS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    return home


def test_spark_starts_in_a_home_with_all_but_the_archive(installed: Path) -> None:
    """Twice, as a second session of this machine finds the home there."""
    for _ in range(2):
        with home_without_zip():
            home = Path(os.environ["SPARK_HOME"])
            assert sorted(one.name for one in home.iterdir()) == ["bin", "jars", "version.py"]
            assert (home / "jars").samefile(installed / "jars")
        assert "SPARK_HOME" not in os.environ


def test_what_is_new_in_the_installed_spark_is_new_in_the_home(installed: Path) -> None:
    """Pip puts another release at the same place."""
    with home_without_zip():
        pass
    (installed / "licenses").mkdir()
    with home_without_zip():
        assert (Path(os.environ["SPARK_HOME"]) / "licenses").is_dir()


def test_another_spark_of_the_user_is_left_alone(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its workers may have no other pyspark than that of the archive."""
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with home_without_zip():
        assert os.environ["SPARK_HOME"] == str(tmp_path)


def test_a_cache_that_cannot_be_written_costs_time_only(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a read-only file system."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("BARNABAS_CACHE", str(tmp_path / "file"))
    with home_without_zip():
        assert "SPARK_HOME" not in os.environ

"""The plain wheel in an environment that has nothing but what its lock file names."""

import sys
from pathlib import Path

import pytest

from releases.distribution import ROOT, version
from tests.support.cache import run
from tests.support.processes import ManagedProcess, free_port

START_SECONDS = 60


@pytest.mark.interop
@pytest.mark.timeout(600)
def test_a_broker_from_the_wheel_takes_and_gives_back_records(tmp_path: Path) -> None:
    """An editable install hides a file that the wheel lacks, and a dependency nobody declared."""
    run([sys.executable, "-m", "hatchling", "build", "-d", tmp_path, "-t", "wheel"], directory=ROOT)
    run([sys.executable, "-m", "venv", tmp_path / "venv"])
    pip = [tmp_path / "venv" / "bin" / "python", "-m", "pip", "install", "--quiet"]
    run([*pip, "--require-hashes", "-r", ROOT / "requirements" / "broker.txt"])
    run([*pip, "--no-deps", tmp_path / f"barnabas-{version()}-py3-none-any.whl"])
    barnabas = tmp_path / "venv" / "bin" / "barnabas"
    assert run([barnabas, "--version"], directory=tmp_path).strip() == f"barnabas {version()}"
    assert (tmp_path / "venv" / "share" / "man" / "man1" / "barnabas-topic-create.1").exists()
    port = free_port()
    command = [str(barnabas), "dev", "--port", str(port), "--admin-port", "-1"]
    broker = ManagedProcess(
        [*command, "--data", str(tmp_path / "data")], tmp_path / "broker.log", {}
    )
    try:
        broker.wait_for_port(port, START_SECONDS)
        (tmp_path / "lines").write_text("first\nsecond\n")
        address = ["--bootstrap-server", f"127.0.0.1:{port}"]
        run([barnabas, "topic", "create", "orders", *address], directory=tmp_path)
        run([barnabas, "produce", "orders", "-f", tmp_path / "lines", *address], directory=tmp_path)
        read = run([barnabas, "consume", "orders", "-n", "2", *address], directory=tmp_path)
        assert [line for line in read.splitlines() if line in ("first", "second")] == [
            "first",
            "second",
        ]
    finally:
        broker.kill()

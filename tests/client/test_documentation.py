"""Every Python example of the client's pages and the README is run as it stands, on a broker.

A fence ```python is a whole program; a ```text fence right behind it is what it prints, where `…`
stands for anything within a line. ```python needs=apache marks what Barnabas does not serve yet,
needs=share what takes a broker whose share groups are switched on.

On Apache Kafka each runs in a process of its own; in `make test` in this one, which is quicker.
"""

import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.interop.share_brokers import start_share_broker

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted((ROOT / "docs" / "client").glob("*.md")), ROOT / "README.md"]
DOCUMENTED_ADDRESS = "127.0.0.1:9092"
_FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SECONDS_MAX = 60


class Example(NamedTuple):
    """One program of a page; `output` is None where the page does not show it."""

    page: Path
    line: int
    program: str
    output: str | None
    needs: str

    def __str__(self) -> str:
        return f"{self.page.stem}-line-{self.line}"


def examples() -> list[Example]:
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        fences = list(_FENCE.finditer(text))
        for number, fence in enumerate(fences):
            if fence[1] != "python":
                continue
            output = None
            if number + 1 < len(fences):
                behind = fences[number + 1]
                if behind[1] == "text" and not text[fence.end() : behind.start()].strip():
                    output = behind[3]
            line = text.count("\n", 0, fence.start()) + 1
            needs = fence[2].partition("needs=")[2].strip()
            found.append(Example(page, line, fence[3], output, needs))
    return found


def written(program: str, bootstrap: str, directory: Path) -> Path:
    path = directory / "example.py"
    path.write_text(program.replace(DOCUMENTED_ADDRESS, bootstrap), encoding="utf-8")
    return path


def run_here(program: str, bootstrap: str, directory: Path) -> str:
    """What a program prints that runs in this process, where warnings are errors too."""
    path = written(program, bootstrap, directory)
    with redirect_stdout(StringIO()) as output, redirect_stderr(StringIO()) as errors:
        runpy.run_path(str(path), run_name="__main__")
    assert not errors.getvalue(), errors.getvalue()
    return output.getvalue()


def run_program(program: str, bootstrap: str, directory: Path) -> str:
    """What a program prints in a process of its own."""
    path = written(program, bootstrap, directory)
    result = subprocess.run(
        [sys.executable, "-W", "error", str(path)],
        cwd=directory,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_SECONDS_MAX,
        check=False,
    )
    assert result.returncode == 0, f"{program}\n{result.stdout}\n{result.stderr}"
    assert not result.stderr, result.stderr
    return result.stdout


def matches(expected: str, printed: str) -> bool:
    pattern = re.escape(expected.strip()).replace("…", ".*")
    return re.fullmatch(pattern, printed.strip()) is not None


EXAMPLES = examples()


@pytest.fixture(
    scope="module", params=["barnabas", pytest.param("4.2.0", marks=pytest.mark.interop)]
)
def share_bootstrap(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The address of a broker that serves share groups."""
    broker = start_share_broker(request.param, tmp_path_factory.mktemp("share"))
    yield broker.bootstrap
    broker.stop()


def test_there_is_a_page_per_role() -> None:
    """The issue's own list: a producer's, a consumer's and an administrator's page."""
    pages = {example.page.stem for example in EXAMPLES}
    assert {"producer", "consumer", "admin"} <= pages


@pytest.mark.parametrize("example", [e for e in EXAMPLES if not e.needs], ids=str)
def test_example_runs_and_prints_what_the_page_says(
    example: Example,
    bootstrap: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """A page that shows what does not work is worse than none."""
    monkeypatch.chdir(tmp_path)
    is_quick = request.node.callspec.params["bootstrap"] == "barnabas"
    run = run_here if is_quick else run_program
    printed = run(example.program, bootstrap, tmp_path)
    if example.output is not None:
        assert matches(example.output, printed), printed


@pytest.mark.parametrize("example", [e for e in EXAMPLES if e.needs == "share"], ids=str)
def test_example_runs_where_share_groups_are_switched_on(
    example: Example, share_bootstrap: str, tmp_path: Path
) -> None:
    """Until they are by themselves."""
    printed = run_program(example.program, share_bootstrap, tmp_path)
    if example.output is not None:
        assert matches(example.output, printed), printed


@pytest.mark.interop
@pytest.mark.parametrize("example", [e for e in EXAMPLES if e.needs == "apache"], ids=str)
def test_example_runs_on_apache_kafka(example: Example, apache: str, tmp_path: Path) -> None:
    """What Barnabas does not serve yet is shown against the broker that does."""
    printed = run_program(example.program, apache, tmp_path)
    if example.output is not None:
        assert matches(example.output, printed), printed

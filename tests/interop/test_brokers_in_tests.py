"""The page about brokers in tests with a client of others: aiokafka, on plain and secure brokers.

The test of the page runs in a pytest of its own, whose packages are this environment's and, after
them, those of the clients' environment.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cache import python_environment
from tests.support.client_programs import INTEROP, REPOSITORY

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("is_secure", ["false", "true"])
def test_aiokafka_reads_what_it_wrote_as_the_page_has_it(tmp_path: Path, is_secure: str) -> None:
    page = (REPOSITORY / "docs" / "testing.md").read_text(encoding="utf-8")
    programs = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    (program,) = (text for text in programs if "import AIOKafka" in text)
    (tmp_path / "test_page.py").write_text(program, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text(f"[pytest]\nbarnabas_secure = {is_secure}\n")
    clients = python_environment("modern", INTEROP / "requirements" / "modern.txt")
    (packages,) = clients.parent.parent.glob("lib/python*/site-packages")
    (tmp_path / "conftest.py").write_text(f"import sys\nsys.path.append({str(packages)!r})\n")
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "barnabas_testing.plugin", "test_page.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert "1 passed" in result.stdout, result.stdout + result.stderr

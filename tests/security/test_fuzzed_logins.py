"""A few of what `python -m tests.security.fuzzed_logins` runs by the million."""

import subprocess
import sys

from tests.security.fuzzed_logins import fuzzed


def test_no_input_breaks_the_log_in() -> None:
    """SEC-112: no exception, nothing but 17, 18 and 36 handled before log-in, memory flat."""
    assert set(fuzzed(20_000, 1)) >= {"login-failure", "malformed-request", "oversize"}


def test_the_program_runs_them_in_processes() -> None:
    """SEC-112: and says how many, and how connections were closed."""
    command = [sys.executable, "-m", "tests.security.fuzzed_logins", "4000", "7"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout
    assert told.startswith("4,000 inputs in ")
    assert "login-failure" in told

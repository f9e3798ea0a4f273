"""The session of the page about clusters, typed in beside `barnabas dev --brokers 3`."""

import re
from pathlib import Path

from tests.cli.documented_sessions import ROOT, commands, matches, run_in_shell
from tests.support.barnabas_process import barnabas_command
from tests.support.processes import ManagedProcess, free_ports
from tests.support.waiting import wait_until

PAGE = ROOT / "docs" / "cluster.md"
_FENCE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Needs a cluster that has lost a majority of its disks; `test_unsafe_recovery` has one.
_ELSEWHERE = "barnabas cluster recover"


def test_the_session_prints_what_the_page_says(tmp_path: Path) -> None:
    """A new user copies from the page: it must work, in this order, and end cleanly."""
    text = "".join(_FENCE.findall(PAGE.read_text(encoding="utf-8")))
    session = [(command, printed) for command, printed in commands(text)]
    (start, greeting), *others = session
    port = free_ports(3)
    arguments = ["--port", str(port), "--admin-port", str(free_ports(3)), "--data", str(tmp_path)]
    command = [str(barnabas_command()), *start.split()[1:], *arguments]
    process = ManagedProcess(command, tmp_path / "dev.log", {})
    try:
        wait_until(lambda: "are ready on" in process.log_tail(), 60, process.log_tail)
        environment = {"BARNABAS_BOOTSTRAP_SERVERS": f"127.0.0.1:{port}", "COLUMNS": "120"}
        for command_line, expected in others:
            if not command_line.startswith(_ELSEWHERE):
                printed = run_in_shell(command_line, environment, tmp_path)
                assert matches(expected, printed), f"$ {command_line}\n{printed}"
    finally:
        code = process.stop()
    assert code == 0
    assert "3 brokers of Barnabas are ready" in greeting

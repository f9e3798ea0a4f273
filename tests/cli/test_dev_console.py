"""The console beside `barnabas dev` (CON-131, CON-133): a child that holds nothing up."""

import http.client
import os
import signal
import socket
from pathlib import Path

import pytest

from barnabas_cli.dev_console import DISTANCE, DevConsole
from tests.support.barnabas_process import barnabas_command
from tests.support.command_line import CommandLine
from tests.support.in_process_broker import DEADLINE_SECONDS
from tests.support.processes import ManagedProcess, free_ports
from tests.support.waiting import wait_until


class Dev:
    """`barnabas dev` with an admin port, and its console 4 below."""

    def __init__(self, path: Path, *arguments: str) -> None:
        self.console_port = free_ports(DISTANCE + 1)
        self.admin_port = self.console_port + DISTANCE
        self.process = ManagedProcess(
            [
                str(barnabas_command()),
                *("dev", "--port", "0", "--admin-port", str(self.admin_port)),
                *("--data", str(path / "data"), *arguments),
            ],
            path / "log",
            {},
        )

    def shows(self, words: str) -> None:
        """Wait until something is printed."""
        wait_until(
            lambda: words in self.process.log_tail(1 << 20) or not self.process.is_running(),
            DEADLINE_SECONDS,
            lambda: self.process.log_tail(),
        )
        assert words in self.process.log_tail(1 << 20), self.process.log_tail()

    def child(self) -> int:
        """The process of the console."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        (pid,) = children.read_text().split()
        return int(pid)


def answer(port: int, path: str) -> tuple[int, str | None, bytes]:
    """Status, Location and body, as soon as somebody listens: the admin HTTP starts last."""
    found: list[tuple[int, str | None, bytes]] = []

    def is_answered() -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_SECONDS)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            found.append((response.status, response.getheader("Location"), response.read()))
        except ConnectionRefusedError:
            return False
        finally:
            connection.close()
        return True

    wait_until(is_answered, DEADLINE_SECONDS, lambda: f"{port}{path}")
    return found[0]


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_the_console_is_beside_the_broker_and_its_end_stops_nothing(tmp_path: Path) -> None:
    """CON-131, CON-133: `/` of the admin port leads there; the child is nicer than the broker."""
    dev = Dev(tmp_path)
    try:
        dev.shows("The console is at")
        assert answer(dev.console_port, "/")[0] == 200
        address = f"http://127.0.0.1:{dev.console_port}/"
        assert answer(dev.admin_port, "/")[:2] == (302, address)
        child = dev.child()
        own = os.getpriority(os.PRIO_PROCESS, 0)
        assert os.getpriority(os.PRIO_PROCESS, child) == min(own + 5, 19)
        os.kill(child, signal.SIGKILL)
        wait_until(lambda: is_gone(child), DEADLINE_SECONDS, lambda: str(child))
        assert answer(dev.admin_port, "/ready")[0] == 200
        dev.process.process.send_signal(signal.SIGINT)
        assert dev.process.process.wait(DEADLINE_SECONDS) == 0
    finally:
        dev.process.stop()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_end_of_the_broker_leaves_a_console_behind(
    tmp_path: Path, number: signal.Signals
) -> None:
    """CON-131: its standard input closes, whatever the end was."""
    dev = Dev(tmp_path)
    try:
        dev.shows("The console is at")
        child = dev.child()
        dev.process.process.send_signal(number)
        wait_until(lambda: is_gone(child), DEADLINE_SECONDS, lambda: str(child))
    finally:
        dev.process.stop()


def test_a_port_in_use_leaves_the_console_out_and_nothing_else(tmp_path: Path) -> None:
    """CON-131: one line is told, and the broker starts as ever."""
    with socket.socket() as taken:
        first = free_ports(DISTANCE + 1)
        taken.bind(("127.0.0.1", first))
        taken.listen()
        command = [
            str(barnabas_command()),
            *("dev", "--port", "0", "--admin-port", str(first + DISTANCE)),
            *("--data", str(tmp_path / "data")),
        ]
        running = ManagedProcess(command, tmp_path / "log", {})
        try:
            wait_until(lambda: "is ready" in running.log_tail(), DEADLINE_SECONDS, running.log_tail)
            told = [line for line in running.log_tail().splitlines() if "No console" in line]
            assert len(told) == 1 and f"port {first} is in use" in told[0]
            status, _, page = answer(first + DISTANCE, "/")
            assert status == 200
            assert b"barnabas console" in page
        finally:
            running.stop()


def test_it_is_left_out_where_nobody_wants_it_or_there_is_no_admin_port(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert DevConsole.beside(9644, is_wanted=False).settings == {}
    assert capsys.readouterr().err == ""
    assert DevConsole.beside(-1, is_wanted=True).settings == {}
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_port_in_use_is_told_in_one_line_by_the_command_itself() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        error = CommandLine("127.0.0.1:9").error("console", "--port", port)
        assert f"127.0.0.1:{port}" in error
        assert "--port" in error
    error = CommandLine("127.0.0.1:9").error("console", "--host", "0.0.0.0", code=2)
    assert "log in" in error

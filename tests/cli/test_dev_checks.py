"""`barnabas dev`: what keeps brokers from starting is one line with the way out."""

import errno
import os
import pty
import re
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from barnabas_cli.dev import ADMIN_PORT, KAFKA_PORT
from barnabas_cli.dev_checks import WantedPort, check_folder, check_ports, free_port
from barnabas_cli.dev_cluster import ports_of
from barnabas_cli.dev_console import DISTANCE
from barnabas_cli.failures import CommandError
from tests.support.barnabas_process import barnabas_command
from tests.support.command_line import CommandLine
from tests.support.in_process_broker import DEADLINE_SECONDS
from tests.support.processes import ManagedProcess
from tests.support.waiting import wait_until

NO_ADMIN = ("--admin-port", "-1")


def test_a_port_in_use_is_told_with_who_has_it_and_what_to_do(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        error = CommandLine().error(
            "dev", "--port", port, *NO_ADMIN, "--data", str(tmp_path / "data"), code=1
        )
        assert len(error.splitlines()) == 1
        assert f"port {port} is in use by process {os.getpid()} (" in error
        assert "with --port" in error
        with pytest.raises(CommandError, match="--admin-port"):
            check_ports([WantedPort(int(port), "--admin-port")])
        error = CommandLine().error(
            "dev", "--port", str(int(port) - 1), "--brokers", "3", *NO_ADMIN,
            "--data", str(tmp_path / "three"), code=1,
        )  # fmt: skip
        assert len(error.splitlines()) == 1


def test_the_console_s_port_is_no_matter_where_the_brokers_is_in_use(tmp_path: Path) -> None:
    """A second start by mistake finds both taken: it is told of one cause, once."""
    away = ADMIN_PORT - KAFKA_PORT - DISTANCE
    first = free_port(lambda port: [WantedPort(port, ""), WantedPort(port + away, "")])
    with socket.socket() as taken, socket.socket() as console:
        for one, port in ((taken, first), (console, first + away)):
            one.bind(("127.0.0.1", port))
            one.listen()
        data = str(tmp_path / "data")
        error = CommandLine().error("dev", "--port", str(first), "--data", data, code=1)
    assert f"port {first} is in use" in error
    assert len(error.splitlines()) == 1


def test_on_a_terminal_a_broker_that_cannot_run_says_so_as_every_command_does(
    tmp_path: Path,
) -> None:
    """In a pod it is a line of the log, from which the operator takes the cause."""
    config = tmp_path / "broker.properties"
    config.write_text("num.partitons=1\n")
    command = [str(barnabas_command()), "broker", "--config", str(config)]
    reader, terminal = pty.openpty()
    try:
        plain = {**os.environ, "NO_COLOR": "1"}
        shown = subprocess.run(command, stderr=terminal, env=plain, timeout=60, check=False)
        assert shown.returncode == 1
        line = os.read(reader, 10_000).decode()
    finally:
        os.close(terminal)
        os.close(reader)
    assert line.splitlines() == [
        "Error: the broker cannot run: unknown setting num.partitons; did you mean num.partitions?"
    ]
    logged = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert " CRITICAL barnabas_broker.__main__: the broker cannot run: " in logged.stderr


def test_a_port_without_a_listener_is_free_and_so_are_those_that_go_with_it() -> None:
    first = free_port(lambda port: ports_of(port, 3))
    ports = [wanted.port for wanted in ports_of(first, 3)]
    assert len(set(ports)) == 6
    assert ports[:3] == [first, first + 1, first + 2]
    assert max(ports) <= 65535
    with socket.socket() as ours:
        ours.bind(("127.0.0.1", first + 2))
        ours.listen()
        with pytest.raises(CommandError, match=f"port {first + 2} is in use"):
            check_ports(ports_of(first, 3))


def test_a_folder_that_cannot_be_one_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CommandError, match="is a file, not a folder: name another folder"):
        check_folder(tmp_path / "file" / "data")
    check_folder(tmp_path / "none" / "yet")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_rights_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(CommandError, match="no right to write"):
        check_folder(tmp_path / "data")


def test_a_folder_that_may_not_be_entered_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--data /root/data` of somebody else: the system only says that it is denied."""
    hidden = tmp_path / "hidden"
    hidden.mkdir()

    def looked_at(path: str | Path, *_: object, **__: object) -> os.stat_result:
        if hidden in Path(path).parents:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return stat(path)

    stat = os.stat
    monkeypatch.setattr(os, "stat", looked_at)
    monkeypatch.setattr(os, "access", lambda path, _mode: Path(path) != hidden)
    with pytest.raises(CommandError, match=f"no right to write in {hidden}: name another folder"):
        check_folder(hidden / "data")


def test_any_port_is_said_and_a_second_start_on_the_folder_refused(tmp_path: Path) -> None:
    """Port 0; the folder is locked by a process that is named; Ctrl-C ends cleanly."""
    data = tmp_path / "data"
    command = [str(barnabas_command()), "dev", "--port", "0", *NO_ADMIN, "--data", str(data)]
    running = ManagedProcess(command, tmp_path / "log", {})
    try:
        wait_until(lambda: "is ready" in running.log_tail(), DEADLINE_SECONDS, running.log_tail)
        match = re.search(r"is ready on 127.0.0.1:(\d+),", running.log_tail())
        assert match is not None
        status = CommandLine(f"127.0.0.1:{match[1]}").json("cluster", "status")
        assert [one["state"] for one in status["brokers"]] == ["ready"]
        error = CommandLine().error("dev", "--port", "0", *NO_ADMIN, "--data", str(data), code=1)
        assert f"{data} is in use by process " in error
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(DEADLINE_SECONDS) == 0
    finally:
        running.stop()


def test_the_data_of_another_cluster_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text(
        "version=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAQ\nnode.id=0\n"
        "directory.id=BBBBBBBBBBBBBBBBBBBBBQ\n"
    )
    error = CommandLine().error(
        "dev", "--port", "0", *NO_ADMIN, "--data", str(tmp_path),
        "--set", "cluster.id=CCCCCCCCCCCCCCCCCCCCCQ", code=1,
    )  # fmt: skip
    assert error.startswith("the broker cannot run: ")
    assert "AAAAAAAAAAAAAAAAAAAAAQ" in error
    assert len(error.strip().splitlines()) == 1

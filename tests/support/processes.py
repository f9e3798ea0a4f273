"""Processes that tests start: free ports, waiting for an address, stopping by process id.

A process is only ever ended through the handle of the one who started it, never by its name.
"""

import fcntl
import os
import random
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

# Below the range from which Linux takes the ports of outgoing connections, with a broker's listener
# for brokers, which is 10,000 ports above its own.
_PORTS = range(11_000, 20_000)
_held_locks: list[int] = []


def free_port() -> int:
    """A port of the loopback address that is this process's until it ends.

    A broker that is killed and started again leaves its port free for seconds: another test's
    broker, or the local end of some connection, must not get it meanwhile. So ports come from
    outside of the range that the system gives away, and a lock on a file holds each one.
    """
    return free_ports(1)


def free_ports(count: int) -> int:
    """The first of so many ports in a row."""
    starts = range(_PORTS.start, _PORTS.stop - count + 1)
    for first in random.SystemRandom().sample(starts, len(starts)):
        locks: list[int] = []
        try:
            for port in range(first, first + count):
                locks += [_locked(port)]
        except OSError:
            for lock in locks:
                os.close(lock)
            continue
        _held_locks.extend(locks)
        return first
    raise RuntimeError(f"no {count} ports are free from {_PORTS.start} to {_PORTS.stop}")


def _locked(port: int) -> int:
    """The lock of a port that nobody listens at. Raises: OSError."""
    folder = Path(tempfile.gettempdir()) / "barnabas-test-ports"
    folder.mkdir(exist_ok=True)
    lock = os.open(folder / str(port), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
    except OSError:
        os.close(lock)
        raise
    return lock


def can_connect(port: int, host: str = "127.0.0.1") -> bool:
    """Whether somebody accepts connections on the port."""
    try:
        with socket.create_connection((host, port), timeout=1):
            return True
    except OSError:
        return False


class ManagedProcess:
    """One child process with its output in a file; started once, stopped or killed by its id."""

    def __init__(self, command: list[str], log_path: Path, environment: dict[str, str]) -> None:
        self.log_path = log_path
        self._log = log_path.open("ab")
        self.started_at = time.monotonic()
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def is_running(self) -> bool:
        return self.process.poll() is None

    def wait_for_port(self, port: int, timeout_seconds: float, host: str = "127.0.0.1") -> float:
        """Waits until the process accepts connections; returns the seconds since its start."""
        deadline = time.monotonic() + timeout_seconds
        while not can_connect(port, host):
            if not self.is_running():
                raise RuntimeError(
                    f"exit {self.process.returncode} before port {port} opened:\n{self.log_tail()}"
                )
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"port {port} is closed after {timeout_seconds} s:\n{self.log_tail()}"
                )
            time.sleep(0.02)
        return time.monotonic() - self.started_at

    def stop(self, timeout_seconds: float = 30) -> int:
        """SIGTERM and the exit code; kills and raises when it does not end in time."""
        if self.is_running():
            self.process.send_signal(signal.SIGTERM)
        return self.wait(timeout_seconds)

    def wait(self, timeout_seconds: float = 30) -> int:
        """The exit code, once it ends; kills and raises when it does not end in time."""
        try:
            code = self.process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise TimeoutError(f"no end within {timeout_seconds} s:\n{self.log_tail()}") from None
        self._log.close()
        return code

    def kill(self) -> None:
        """Ends it with SIGKILL: no cleanup of any kind."""
        if self.is_running():
            self.process.kill()
        self.process.wait(30)
        self._log.close()

    def log_tail(self, size_bytes: int = 4000) -> str:
        """The end of what the process printed."""
        data = self.log_path.read_bytes()
        return data[-size_bytes:].decode(errors="replace")

    def resident_bytes(self) -> int:
        """The resident memory of the process, as the kernel counts it."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise RuntimeError(f"no VmRSS for process {self.pid}")

    def cpu_seconds(self) -> float:
        """User and system time of the process so far, all threads."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

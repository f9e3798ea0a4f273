"""What would keep the brokers of `barnabas dev` from starting, found before they do.

A port that somebody has, a folder that cannot be written: told in one line with the way out, and
with the process that is in the way where this machine says which it is. What arises later, or
between the look and the start, the broker tells itself.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from barnabas_cli.failures import CommandError

HOST: Final = "127.0.0.1"
PORT_MAX: Final = 65535
_LOCK_FILE: Final = ".lock"
_LISTENING: Final = "0A"
_ATTEMPTS: Final = 100


class WantedPort(NamedTuple):
    """A port that a broker is to listen at, and the option that gives it another."""

    port: int
    option: str


def check_ports(wanted: Iterable[WantedPort]) -> None:
    """Refuse ports that somebody else has. Raises: CommandError."""
    for port, option in wanted:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except PermissionError:
                raise CommandError(
                    f"no right to listen at port {port}: take one above 1023 with {option}"
                ) from None
            except OSError:
                raise CommandError(
                    f"port {port} is in use{_by(_listener_at(port))}: stop it, or take another"
                    f" port with {option}"
                ) from None


def check_folder(data: Path) -> None:
    """Refuse a folder that cannot be used, or that a broker uses. Raises: CommandError."""
    other = "name another folder with --data"
    there = [part for part in (data.absolute(), *data.absolute().parents) if _is_seen(part)]
    for part in reversed(there):
        if not part.is_dir():
            raise CommandError(f"{part} is a file, not a folder: {other}")
    nearest = there[0]
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise CommandError(f"no right to write in {nearest}: {other}, or get the right")
    for lock in (data / _LOCK_FILE, *sorted(data.glob(f"broker-*/{_LOCK_FILE}"))):
        holder = _holder_of(lock)
        if holder is not None:
            raise CommandError(f"{lock.parent} is in use{_by(holder)}: stop it, or {other}")


def _is_seen(path: Path) -> bool:
    """Whether it is there; what is in a folder that may not be entered is not seen."""
    try:
        return path.exists()
    except PermissionError:
        return False


def free_port(wanted: Callable[[int], Iterable[WantedPort]]) -> int:
    """A first port for which nobody has any of those that go with it. Raises: CommandError."""
    for _ in range(_ATTEMPTS):
        with socket.socket() as probe:
            probe.bind((HOST, 0))
            first = int(probe.getsockname()[1])
        with contextlib.suppress(CommandError, OverflowError):
            check_ports(wanted(first))
            return first
    raise CommandError("no ports in a row are free: name the first with --port")


def _by(pid: int | None) -> str:
    """Who that is, as far as it is known."""
    if pid is None:
        return ""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except (OSError, UnicodeDecodeError):
        command = ""
    shown = command if len(command) <= 80 else f"{command[:77]}..."
    return f" by process {pid} ({shown})" if shown else f" by process {pid}"


def _listener_at(port: int) -> int | None:
    """The process that listens at a port; None where that cannot be seen."""
    return _opener_of({f"socket:[{inode}]" for inode in _listening_inodes(port)})


def _opener_of(targets: set[str]) -> int | None:
    """A process that has one of these open; None where that cannot be seen."""
    for link in Path("/proc").glob("[0-9]*/fd/*") if targets else ():
        try:
            if str(link.readlink()) in targets:
                return int(link.parts[2])
        except OSError:  # it has gone, or is somebody else's
            continue
    return None


def _listening_inodes(port: int) -> Iterator[str]:
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        try:
            lines = table.read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                yield fields[9]


def _holder_of(lock: Path) -> int | None:
    """The process that holds a lock file; None where nobody does, or that cannot be seen."""
    try:
        inode = lock.stat().st_ino
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    held = (line.split() for line in lines if "->" not in line)
    if any(int(fields[5].rpartition(":")[2]) == inode for fields in held):
        return _opener_of({str(lock.resolve())})
    return None

"""Hosts on this machine: network namespaces joined by a bridge, whose cables can be pulled.

A host that is cut off gets no packet and sends none, and nobody is told: no connection is refused
or reset, as when a switch dies. Needs root and `ip`; everything is named after the process that
made it and removed at the end. What a killed process left behind is in nobody's way: each takes a
network of its own.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from types import TracebackType

_NETWORKS = [f"10.213.{number}" for number in range(256)]
_FIRST_HOST = 10


def are_possible() -> bool:
    """Whether this process may make namespaces."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    name = f"bt{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
    if made.returncode == 0:
        _ip("netns", "del", name)
    return made.returncode == 0


class NetworkNamespaces:
    """Hosts 0, 1, ...; this machine itself is reached from them as `gateway`."""

    def __init__(self, count: int) -> None:
        self._prefix = f"b{os.getpid()}"
        self._bridge = f"{self._prefix}br"
        self._count = count
        self._network = _free_network()
        self.gateway = f"{self._network}.1"

    def address(self, host: int) -> str:
        """The address of a host."""
        return f"{self._network}.{_FIRST_HOST + host}"

    def command(self, host: int) -> list[str]:
        """What to put before a command to run it on a host; the process id stays the same."""
        return ["ip", "netns", "exec", self._name(host)]

    def cut_off(self, host: int) -> None:
        """Pull the cable of a host."""
        _ip("link", "set", self._cable(host), "down")

    def join(self, host: int) -> None:
        """Plug it in again."""
        _ip("link", "set", self._cable(host), "up")

    def __enter__(self) -> "NetworkNamespaces":
        self._remove()
        try:
            _ip("link", "add", self._bridge, "type", "bridge")
            _ip("address", "add", f"{self.gateway}/24", "dev", self._bridge)
            _ip("link", "set", self._bridge, "up")
            for host in range(self._count):
                self._add(host)
        except BaseException:
            self._remove()
            raise
        return self

    def _add(self, host: int) -> None:
        name, cable = self._name(host), self._cable(host)
        inside = f"{cable}i"
        _ip("netns", "add", name)
        _ip("link", "add", cable, "type", "veth", "peer", "name", inside)
        _ip("link", "set", inside, "netns", name)
        _ip("link", "set", cable, "master", self._bridge, "up")
        _ip("-n", name, "address", "add", f"{self.address(host)}/24", "dev", inside)
        _ip("-n", name, "link", "set", inside, "up")
        _ip("-n", name, "link", "set", "lo", "up")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._remove()

    def _remove(self) -> None:
        for host in range(self._count):
            _try_ip("link", "del", self._cable(host))
            _try_ip("netns", "del", self._name(host))
        _try_ip("link", "del", self._bridge)

    def _name(self, host: int) -> str:
        return f"{self._prefix}h{host}"

    def _cable(self, host: int) -> str:
        return f"{self._prefix}c{host}"


def _free_network() -> str:
    """The first network in which this machine has no address."""
    shown = subprocess.run(
        ["ip", "-json", "-4", "address"], capture_output=True, text=True, check=True
    )
    taken = {
        address["local"].rpartition(".")[0]
        for interface in json.loads(shown.stdout)
        for address in interface["addr_info"]
    }
    return next(network for network in _NETWORKS if network not in taken)


def _ip(*arguments: str) -> None:
    run(["ip", *arguments])


def _try_ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], capture_output=True, check=False)


def run(command: Sequence[str]) -> None:
    """Run a short command. Raises: RuntimeError with what it printed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr or done.stdout}")

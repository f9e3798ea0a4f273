"""One real etcd server as a process of its own, from Debian's package `etcd-server`."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.cache import require_commands
from tests.support.processes import ManagedProcess, free_port
from tests.support.tls_files import TlsFiles
from tests.support.waiting import wait_until


class EtcdProcess:
    """One server, by default a cluster of its own; `directory` keeps its data and output."""

    def __init__(
        self, directory: Path, tls: TlsFiles | None = None, *, listen_on: str = "127.0.0.1"
    ) -> None:
        """With certificates, only clients that show one are let in."""
        self.directory = directory
        self._listen_on = listen_on
        self.port = free_port()
        self.peer = f"http://127.0.0.1:{free_port()}"
        self.members = {directory.name: self.peer}
        self._tls = tls
        self.process: ManagedProcess | None = None

    @property
    def endpoint(self) -> str:
        if self._tls is not None:
            return f"https://localhost:{self.port}"
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, again too, and return when it answers."""
        self.start_soon()
        self.wait()

    def start_soon(self) -> None:
        """Start it without waiting: one of several does not answer alone."""
        require_commands({"etcd": "etcd-server"})
        self.directory.mkdir(parents=True, exist_ok=True)
        members = ",".join(f"{name}={peer}" for name, peer in self.members.items())
        command = ["etcd", "--name", self.directory.name]
        command += ["--data-dir", str(self.directory / "data")]
        listen = self.endpoint.replace("localhost", "127.0.0.1")
        command += ["--listen-client-urls", listen.replace("127.0.0.1", self._listen_on)]
        command += ["--advertise-client-urls", self.endpoint, "--listen-peer-urls", self.peer]
        command += ["--initial-advertise-peer-urls", self.peer, "--initial-cluster", members]
        if self._tls is not None:
            command += ["--cert-file", str(self._tls.broker_certificate)]
            command += ["--key-file", str(self._tls.broker_key), "--client-cert-auth"]
            command += ["--trusted-ca-file", str(self._tls.authority)]
        self.process = ManagedProcess(command, self.directory / "etcd.log", {})

    def wait(self) -> None:
        """Until it answers."""
        assert self.process is not None
        self.process.wait_for_port(self.port, 60)
        if self._tls is None:
            wait_until(self._is_healthy, 60, self.process.log_tail)

    def _is_healthy(self) -> bool:
        try:
            self.call("kv/range", {"key": "AA=="})
        except urllib.error.HTTPError as error:
            return error.code < 500  # it wants a user
        except OSError:
            return False
        return True

    def call(self, method: str, document: dict[str, Any], token: str = "") -> dict[str, Any]:
        """A request of an administrator over the JSON gateway."""
        request = urllib.request.Request(
            f"{self.endpoint}/v3/{method}",
            json.dumps(document).encode(),
            {"Content-Type": "application/json", **({"Authorization": token} if token else {})},
        )
        with urllib.request.urlopen(request, timeout=10) as reply:
            answer: dict[str, Any] = json.loads(reply.read())
        return answer

    def kill(self) -> None:
        """SIGKILL; what it has acknowledged is on its disk."""
        assert self.process is not None
        self.process.kill()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process is not None and self.process.is_running():
            self.process.stop()


@contextmanager
def etcd_cluster(directory: Path, count: int = 3) -> Iterator[list[EtcdProcess]]:
    """Several servers that form one cluster."""
    servers = [EtcdProcess(directory / f"etcd-{number}") for number in range(count)]
    members = {server.directory.name: server.peer for server in servers}
    with ExitStack() as stack:
        for server in servers:
            server.members = members
            stack.callback(server.__exit__, None, None, None)
            server.start_soon()
        for server in servers:
            server.wait()
        yield servers

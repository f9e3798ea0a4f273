"""One Barnabas broker as a process of its own, started the way a user starts it.

The interface is that of `ApacheKafka`, so that a test runs against either.
"""

import json
import re
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.support.processes import ManagedProcess, free_port


class BarnabasProcess:
    """One `barnabas broker`; `directory` keeps data, configuration and output."""

    name = "barnabas"

    def __init__(
        self,
        directory: Path,
        port: int | None = None,
        *,
        properties: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        host: str = "127.0.0.1",
        command_prefix: Sequence[str] = (),
    ) -> None:
        """With a prefix, such as that of a network namespace, the broker runs behind it."""
        self.directory = directory
        self.host = host
        self._command_prefix = tuple(command_prefix)
        self.port = port or free_port()
        self.replication_port = free_port()
        self.admin_port = free_port()
        self.data_directory = directory / "data"
        self.environment = dict(environment or {})
        self.process: ManagedProcess | None = None
        self.properties = {
            "node.id": "1",
            "listeners": self._addresses(),
            "advertised.listeners": self._addresses(),
            "log.dirs": str(self.data_directory),
            "admin.http.host": host,
            "admin.http.port": str(self.admin_port),
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            # Tests run on machines whose disks are nearly full, too.
            "barnabas.disk.reserve.bytes.max": "16777216",
            **(properties or {}),
        }

    def _addresses(self) -> str:
        """Of the clients' listener and of the brokers' own."""
        clients = f"PLAINTEXT://{self.host}:{self.port}"
        return f"{clients},REPLICATION://{self.host}:{self.replication_port}"

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def cpu_seconds(self) -> float:
        """User and system time of the running process so far."""
        assert self.process is not None
        return self.process.cpu_seconds()

    def status(self) -> dict[str, Any]:
        """What `/status` of the admin HTTP says. Raises: OSError."""
        url = f"http://{self.host}:{self.admin_port}/status"
        with urllib.request.urlopen(url, timeout=5) as answer:
            document: dict[str, Any] = json.load(answer)
            return document

    def metric(self, name: str) -> float:
        """The value of a metric without labels. Raises: OSError."""
        url = f"http://{self.host}:{self.admin_port}/metrics"
        with urllib.request.urlopen(url, timeout=5) as answer:
            found = re.search(rf"^{name} (\S+)$", answer.read().decode(), re.MULTILINE)
        assert found, name
        return float(found[1])

    def start(self, timeout_seconds: float = 60) -> float:
        """Starts the broker; returns the seconds from exec until it accepts connections."""
        self.directory.mkdir(parents=True, exist_ok=True)
        config = self.write_config()
        command = [
            *self._command_prefix,
            str(barnabas_command()),
            "broker",
            "--config",
            str(config),
        ]
        log_path = self.directory / "broker.log"
        self.process = ManagedProcess(command, log_path, self.environment)
        return self.process.wait_for_port(self.port, timeout_seconds, self.host)

    def write_config(self) -> Path:
        """The properties file that `start` uses."""
        self.directory.mkdir(parents=True, exist_ok=True)
        config = self.directory / "broker.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in self.properties.items()))
        return config

    def stop(self, timeout_seconds: float = 30) -> int:
        """SIGTERM; returns the exit code, 0 after a clean shutdown."""
        assert self.process is not None
        return self.process.stop(timeout_seconds)

    def kill(self) -> None:
        """Ends it with SIGKILL: no cleanup of any kind."""
        assert self.process is not None
        self.process.kill()

    def __enter__(self) -> "BarnabasProcess":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process is not None and self.process.is_running():
            self.stop()


def barnabas_command() -> Path:
    """The installed `barnabas` of the environment that runs the tests."""
    return Path(sys.executable).parent / "barnabas"

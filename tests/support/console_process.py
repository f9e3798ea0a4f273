"""`barnabas console` as a process of its own, as a user starts it, with brokers to look at."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

from barnabas_client.admin.admin import Admin
from tests.support.barnabas_cluster import BarnabasCluster
from tests.support.kafka_cluster import KafkaCluster
from tests.support.processes import ManagedProcess, free_port

_START_SECONDS = 30


class ConsoleProcess:
    """One console for the brokers at an address."""

    def __init__(
        self,
        directory: Path,
        bootstrap: str,
        *options: str,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.port = free_port()
        self._log_path = directory / f"console-{self.port}.log"
        self._command: Sequence[str] = (
            *(sys.executable, "-m", "barnabas_cli.main", "console", "-b", bootstrap),
            *("--port", str(self.port), "--name", "orders-prod", *options),
        )
        self._environment = dict(environment or {})
        self.process: ManagedProcess | None = None

    @property
    def address(self) -> str:
        """Where browsers find it."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Returns once it accepts connections."""
        self.process = ManagedProcess(list(self._command), self._log_path, self._environment)
        self.process.wait_for_port(self.port, _START_SECONDS)

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        assert self.process is not None
        return self.process.stop()

    def kill(self) -> None:
        """SIGKILL."""
        assert self.process is not None
        self.process.kill()

    def __enter__(self) -> ConsoleProcess:
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


class WatchedCluster:
    """Brokers and a console for them."""

    def __init__(self, brokers: BarnabasCluster | KafkaCluster, console: ConsoleProcess) -> None:
        self.brokers = brokers
        self.console = console

    def run(self, work: Callable[[Admin], Awaitable[Any]]) -> Any:
        """Do something with an administrative client, in a loop of its own: the browser has one."""

        async def with_admin() -> Any:
            async with Admin(bootstrap_servers=self.brokers.bootstrap) as admin:
                return await work(admin)

        return run(with_admin)


def run(work: Callable[[], Awaitable[Any]]) -> Any:
    """Run a coroutine beside the browser's loop."""

    async def main() -> Any:
        return await work()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, main()).result()

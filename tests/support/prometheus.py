"""A real Prometheus on this machine that scrapes what a test starts."""

import json
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml

from tests.support.cache import require_commands
from tests.support.processes import ManagedProcess, free_port
from tests.support.waiting import wait_until

START_SECONDS = 60


class Prometheus:
    """Prometheus with its data below a folder; `jobs` are targets by name, scraped each second.

    A target is an address and the instance that its series have.
    """

    def __init__(
        self,
        directory: Path,
        jobs: Mapping[str, Sequence[tuple[str, str]]],
        *,
        rule_files: Sequence[Path] = (),
        interval_seconds: int = 1,
    ) -> None:
        self._directory = directory
        self.port = free_port()
        self._process: ManagedProcess | None = None
        directory.mkdir(parents=True, exist_ok=True)
        interval = f"{interval_seconds}s"
        configuration = {
            "global": {
                "scrape_interval": interval,
                "scrape_timeout": interval,
                "evaluation_interval": interval,
            },
            "rule_files": [str(path.resolve()) for path in rule_files],
            "scrape_configs": [
                {
                    "job_name": name,
                    "honor_labels": True,
                    "static_configs": [
                        {"targets": [address], "labels": {"instance": instance}}
                        for address, instance in targets
                    ],
                }
                for name, targets in jobs.items()
            ],
        }
        self._file = directory / "prometheus.yaml"
        self._file.write_text(yaml.safe_dump(configuration))

    def __enter__(self) -> "Prometheus":
        require_commands({"prometheus": "prometheus"})
        command = [
            "prometheus",
            f"--config.file={self._file}",
            f"--storage.tsdb.path={self._directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--log.level=warn",
        ]
        self._process = ManagedProcess(command, self._directory / "prometheus.log", {})
        self._process.wait_for_port(self.port, START_SECONDS)
        wait_until(self._is_ready, START_SECONDS, self._process.log_tail)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process is not None
        self._process.stop()

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series of an expression now. Raises: RuntimeError with what Prometheus says."""
        return self._results("query", {"query": expression})

    def query_range(
        self, expression: str, start: float, end: float, step_seconds: float
    ) -> list[dict[str, Any]]:
        """The series of an expression over a time."""
        return self._results(
            "query_range",
            {"query": expression, "start": start, "end": end, "step": step_seconds},
        )

    def rules(self) -> list[dict[str, Any]]:
        """All rules with their health, as Prometheus has loaded them."""
        groups = self._ask("rules", {})["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def _is_ready(self) -> bool:
        try:
            url = f"http://127.0.0.1:{self.port}/-/ready"
            with urllib.request.urlopen(url, timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _results(self, path: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        document = self._ask(path, parameters)
        if document["resultType"] == "scalar":
            return [{"metric": {}, "value": document["result"]}]
        found: list[dict[str, Any]] = document["result"]
        return found

    def _ask(self, path: str, parameters: Mapping[str, Any]) -> Any:
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            told = error.read().decode(errors="replace")
            raise RuntimeError(f"{parameters.get('query', path)}: {told}") from error

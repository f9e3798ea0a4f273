"""`helm` as a user has it."""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.e2e.support.cluster import Cluster
from tests.e2e.support.kubectl import run_program

CHART = Path(__file__).resolve().parents[3] / "charts" / "barnabas"


class Helm:
    """Calls in one namespace."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster = cluster
        self.namespace = namespace

    def run(self, *arguments: str, timeout_seconds: float = 300) -> str:
        """What the call prints. Raises: KubectlError if it fails."""
        place = ["--kubeconfig", str(self._cluster.kubeconfig), "--namespace", self.namespace]
        command = [self._cluster.helm, *arguments, *place]
        return run_program(command, timeout_seconds=timeout_seconds)

    def install(
        self,
        release: str,
        values: Mapping[str, Any],
        *more: str,
        chart: Path = CHART,
        timeout_seconds: int = 180,
    ) -> str:
        """Install the chart, in a namespace that is made when it is not there."""
        return self._release(
            "install",
            release,
            values,
            "--create-namespace",
            *more,
            chart=chart,
            timeout_seconds=timeout_seconds,
        )

    def upgrade(
        self,
        release: str,
        values: Mapping[str, Any],
        *more: str,
        chart: Path = CHART,
        timeout_seconds: int = 180,
    ) -> str:
        """Upgrade a release."""
        return self._release(
            "upgrade", release, values, *more, chart=chart, timeout_seconds=timeout_seconds
        )

    def uninstall(self, release: str) -> str:
        """Remove a release and wait until its objects are gone."""
        return self.run("uninstall", release, "--wait", "--timeout", "180s", "--ignore-not-found")

    def _release(
        self,
        verb: str,
        release: str,
        values: Mapping[str, Any],
        *more: str,
        chart: Path,
        timeout_seconds: int,
    ) -> str:
        # Every JSON document is one of YAML, too.
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            json.dump(values, file)
            file.flush()
            timeout = ["--timeout", f"{timeout_seconds}s"]
            return self.run(
                *[verb, release, str(chart), "--values", file.name, *timeout, *more],
                timeout_seconds=timeout_seconds + 60,
            )

"""The chart's console beside secure brokers, and the way to it: `kubectl port-forward`."""

import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import yaml

from tests.e2e.support.helm import CHART
from tests.e2e.support.release import Release
from tests.e2e.support.secure_brokers import SecureBrokers

PORT = 9640
USER = "console"
_FORWARDS = re.compile(r"^Forwarding from 127\.0\.0\.1:(\d+) -> ")
PAGE = Path(__file__).resolve().parents[3] / "docs" / "console.md"


class ConsolePod:
    """What `charts/barnabas/templates/console.yaml` makes for a secure Broker of a release."""

    def __init__(self, release: Release, brokers: SecureBrokers, name: str, **console: Any) -> None:
        """`console` are values of the chart besides the User's Secret."""
        self._release = release
        self._brokers = brokers
        self._console = console
        self._instance = name
        self.kubectl = brokers.kubectl
        self.name = f"{name}-barnabas-console"

    def start(self) -> "ConsolePod":
        """Its own User first; returns when it can be reached."""
        user = documented_user()
        user["metadata"] = {"name": USER}
        user["spec"]["brokerRef"] = {"name": self._brokers.name}
        self.kubectl.apply(user)
        self.kubectl.wait_for("Ready", f"user/{USER}")
        self.kubectl.run("apply", "-f", "-", text=self._manifests())
        deployment = f"deployment/{self.name}"
        self.kubectl.run("rollout", "status", deployment, "--timeout=120s", timeout_seconds=150)
        return self

    def remove(self) -> None:
        """The console, but for its User."""
        self.kubectl.run("delete", "--ignore-not-found", "-f", "-", text=self._manifests())

    @property
    def pod(self) -> Any:
        """Its pod."""
        (pod,) = self.kubectl.list("pods", f"app.kubernetes.io/instance={self._instance}")
        return pod

    @contextmanager
    def forwarded(self) -> Iterator[str]:
        """Its address on this machine, for as long as kubectl forwards it."""
        command = self.kubectl.command("port-forward", f"deployment/{self.name}", f":{PORT}")
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                yield f"http://127.0.0.1:{_port_of(process.stdout)}"
            finally:
                process.kill()

    def _manifests(self) -> str:
        image = self._release.values["brokerImage"]
        settings = {
            "broker.name": self._brokers.name,
            "security.enabled": "true",
            "brokerImage.repository": image["repository"],
            "brokerImage.tag": image["tag"],
            "console.clientSecret": USER,
            **{f"console.{key}": value for key, value in self._console.items()},
        }
        chosen = [f"--set={key}={value}" for key, value in settings.items()]
        shown = ["--show-only", "templates/console.yaml", "--kube-version=1.33.0"]
        return self._release.helm.run("template", self._instance, str(CHART), *shown, *chosen)


def documented_user() -> dict[str, Any]:
    """The User that the console's page has its readers apply."""
    blocks = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    (found,) = [block for block in map(yaml.safe_load, blocks) if "kind" in block]
    assert found["kind"] == "User"
    return dict(found)


def _port_of(stream: IO[str]) -> int:
    """The port in kubectl's first line; the rest is read so that it never waits for us."""
    line = stream.readline()
    found = _FORWARDS.match(line)
    assert found is not None, line
    threading.Thread(target=stream.read, daemon=True).start()
    return int(found[1])

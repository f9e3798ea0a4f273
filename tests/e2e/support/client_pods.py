"""Pods with clients in them, next to the brokers: the command line and the Python client of the
broker's image, and Java's producer under a measured load.

They carry a label by which the tests keep them on a node that is drained.
"""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.support.kubectl import Kubectl, KubectlError

CLIENTS = Path(__file__).resolve().parents[1] / "clients"
KEEP = {"e2e.barnabas.dev/keep": "true"}
USER_HOME = "/etc/barnabas/user"


def client_pod(
    name: str, image: str, command: list[str] | None = None, arguments: list[str] | None = None
) -> dict[str, Any]:
    """A pod that may do nothing but write into /tmp."""
    container: dict[str, Any] = {
        "name": "client",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "env": [{"name": "HOME", "value": "/tmp"}],
        "securityContext": {
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }
    if command is not None:
        container["command"] = command
    if arguments is not None:
        container["args"] = arguments
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": KEEP},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 10001,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
            "volumes": [{"name": "tmp", "emptyDir": {}}],
        },
    }


def mount_user(pod: dict[str, Any], secret: str) -> None:
    """Mount the Secret of a User where its files expect to be."""
    mount_volume(pod, {"name": "user", "secret": {"secretName": secret}}, USER_HOME)


def mount_volume(pod: dict[str, Any], volume: dict[str, Any], path: str) -> None:
    """Mount a volume, to be read by the pod's user."""
    spec = pod["spec"]
    spec["securityContext"]["fsGroup"] = 10001
    mount = {"name": volume["name"], "mountPath": path, "readOnly": True}
    spec["containers"][0]["volumeMounts"].append(mount)
    spec["volumes"].append(volume)


class ClientPod:
    """The command line and Python, for as long as the test needs them."""

    def __init__(
        self, kubectl: Kubectl, image: str, bootstrap: str, name: str = "client", node: str = ""
    ) -> None:
        """A `node` is where the pod has to be."""
        self.kubectl = kubectl
        self._image = image
        self._bootstrap = bootstrap
        self._node = node
        self.name = name

    def start(self) -> "ClientPod":
        waits = "import signal; signal.signal(15, lambda *_: exit()); signal.pause()"
        pod = client_pod(self.name, self._image, ["python3", "-c", waits])
        if self._node:
            pod["spec"]["nodeName"] = self._node
        self.kubectl.apply(pod)
        self.kubectl.wait_for("Ready", f"pod/{self.name}")
        return self

    def start_in(self, kubectl: Kubectl) -> "ClientPod":
        """The same in another namespace."""
        name = f"{self.name}-{self.kubectl.namespace}"[:60]
        return ClientPod(kubectl, self._image, self._bootstrap, name).start()

    def topics_like(self, *prefixes: str) -> list[str]:
        """The brokers' topics whose names begin so."""
        listed = json.loads(self.barnabas("topic", "list", "-o", "json"))
        return sorted(one["topic"] for one in listed if one["topic"].startswith(prefixes))

    def barnabas(self, *arguments: str, text: str | None = None) -> str:
        """What the command `barnabas` prints."""
        command = ["barnabas", *arguments, "--bootstrap-server", self._bootstrap]
        return self.kubectl.execute(self.name, *command, text=text)

    def python(self, script: str, *arguments: str, timeout_seconds: float = 180) -> str:
        """What a script of `tests/e2e/clients` prints."""
        return self.kubectl.execute(
            self.name,
            "python3",
            "-",
            self._bootstrap,
            *arguments,
            text=(CLIENTS / script).read_text(),
            timeout_seconds=timeout_seconds,
        )

    def reaches(self, host: str, port: int = 9092) -> bool:
        """Whether somebody takes connections at a port of a host."""
        script = "import socket, sys; socket.create_connection((sys.argv[1], sys.argv[2]), 3)"
        try:
            self.kubectl.execute(self.name, "python3", "-c", script, host, str(port))
        except KubectlError:
            return False
        return True

    def until_reached(self, timeout_seconds: float = 60) -> None:
        """The address that clients begin with takes connections."""
        host = self._bootstrap.partition(":")[0]
        self.kubectl.until(
            lambda: self.reaches(host), timeout_seconds, lambda: f"{host} takes no connection"
        )

    def health(self) -> dict[str, Any]:
        """What `barnabas cluster status` tells."""
        told: dict[str, Any] = json.loads(self.barnabas("cluster", "status", "-o", "json"))
        return told

    def until_healthy(self, timeout_seconds: float = 120) -> None:
        """All brokers serve, and no partition lacks a replica."""
        self.kubectl.until(
            lambda: self.health()["health"] == "healthy",
            timeout_seconds,
            lambda: json.dumps(self.health(), indent=1),
        )

    def read_numbers(self, topic: str) -> dict[int, list[tuple[int, int]]]:
        """All records of a topic: by partition, offset and number in the order of reading."""
        found: dict[int, list[tuple[int, int]]] = {}
        for line in self.python("read_numbers.py", topic).splitlines():
            partition, offset, number = map(int, line.split())
            found.setdefault(partition, []).append((offset, number))
        return found

    def remove(self) -> None:
        self.kubectl.delete("pod", self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fared:
    """How the users of a load have fared."""

    sent: int
    acknowledged: int
    errors: int
    first_error: str
    p50_ms: float
    p99_ms: float
    max_ms: float
    longest_pause_ms: float

    def __str__(self) -> str:
        return (
            f"{self.acknowledged} of {self.sent} acknowledged, {self.errors} errors, "
            f"p50 {self.p50_ms} ms, p99 {self.p99_ms} ms, max {self.max_ms} ms, "
            f"longest pause {self.longest_pause_ms} ms"
        )


class JavaLoad:
    """Java's producer with its defaults, at a steady rate."""

    def __init__(
        self, kubectl: Kubectl, image: str, bootstrap: str, topic: str, *, user: str = ""
    ) -> None:
        """It logs in with the Secret of a `user`, if there is one."""
        self._kubectl = kubectl
        self._image = image
        self._bootstrap = bootstrap
        self._user = user
        self.topic = topic
        self.name = f"load-{topic}"

    def start(self, partition_count: int, records_per_second: int = 200) -> "JavaLoad":
        """Returns when the first records are acknowledged."""
        words = [self._bootstrap, self.topic, str(partition_count), str(records_per_second)]
        arguments = ["MeasuredLoad", *words]
        pod = client_pod(self.name, self._image)
        image_entry = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx192m"]
        if self._user:
            arguments.append(f"{USER_HOME}/client.properties")
            mount_user(pod, self._user)
        pod["spec"]["containers"][0]["command"] = [*image_entry, *arguments]
        self._kubectl.apply(pod)
        self._kubectl.wait_for("Ready", f"pod/{self.name}")
        self._kubectl.until(lambda: self.count() > 0, 120, lambda: self._kubectl.logs(self.name))
        return self

    def count(self) -> int:
        """How many records were acknowledged so far."""
        # There is no file before the program has come so far.
        script = "touch /tmp/acknowledged; wc -l < /tmp/acknowledged"
        return int(self._kubectl.execute(self.name, "sh", "-c", script))

    def goes_on(self, timeout_seconds: float = 120, more: int = 400) -> None:
        """Returns when so many more records are acknowledged."""
        wanted = self.count() + more
        self._kubectl.until(
            lambda: self.count() >= wanted, timeout_seconds, lambda: f"{self.count()} of {wanted}"
        )

    def end(self) -> Fared:
        """Stop it; what it has sent is delivered first."""
        self._kubectl.execute(self.name, "touch", "/tmp/stop")
        self._kubectl.until(
            self._has_ended, 200, lambda: self._kubectl.logs(self.name, "--tail=30")
        )
        return Fared(**json.loads(self._kubectl.execute(self.name, "cat", "/tmp/summary.json")))

    def acknowledged(self) -> list[str]:
        """Lines `partition number offset`."""
        return self._kubectl.execute(self.name, "cat", "/tmp/acknowledged").splitlines()

    def remove(self) -> None:
        self._kubectl.delete("pod", self.name)

    def _has_ended(self) -> bool:
        listed = self._kubectl.execute(self.name, "ls", "/tmp").split()
        return "summary.json" in listed


class SteadyExchange:
    """Our clients, which produce and consume all the time and log in again and again."""

    def __init__(
        self, kubectl: Kubectl, image: str, topic: str, name: str, secret: str, *, group: str = ""
    ) -> None:
        """In a group of the pod's name, unless another one is given."""
        self._kubectl = kubectl
        script = (CLIENTS / "steady_exchange.py").read_text()
        arguments = [f"{USER_HOME}/client.properties", topic, group or name]
        self._pod = client_pod(name, image, ["python3", "-c", script, *arguments])
        mount_user(self._pod, secret)
        self.name = name

    def start(self) -> "SteadyExchange":
        """Returns when the first records are read."""
        self._kubectl.apply(self._pod)
        self._kubectl.wait_for("Ready", f"pod/{self.name}")
        self._kubectl.until(
            lambda: self.figures().get("acknowledged", 0) > 10,
            120,
            lambda: self._kubectl.logs(self.name),
        )
        return self

    def figures(self) -> dict[str, int]:
        """What was done so far, empty before it is known."""
        told: dict[str, int] = json.loads(self.read("/tmp/figures") or "{}")
        return told

    def read(self, path: str) -> str:
        """A file in the pod, whose image has no shell; empty where there is none."""
        script = (
            "import pathlib, sys; file = pathlib.Path(sys.argv[1]);"
            " print(file.read_text() if file.exists() else '', end='')"
        )
        return self._kubectl.execute(self.name, "python3", "-c", script, path)

    def goes_on(self, timeout_seconds: float = 60, more: int = 10) -> None:
        """Returns when so many more log-ins were tried."""
        wanted = self.figures().get("log_ins", 0) + more
        self._kubectl.until(
            lambda: self.figures().get("log_ins", 0) >= wanted,
            timeout_seconds,
            lambda: self._kubectl.logs(self.name, "--tail=20"),
        )

    def end(self) -> dict[str, int]:
        """What was done, when all that was acknowledged is read. Fails if anything failed."""
        script = "import pathlib; pathlib.Path('/tmp/stop').touch()"
        self._kubectl.execute(self.name, "python3", "-c", script)
        self._kubectl.wait_for_phase(self.name, "Succeeded")
        # Among them are also lines that the clients log.
        lines = self._kubectl.logs(self.name).splitlines()
        failures = [line for line in lines if line.startswith('{"failure"')]
        assert failures == [], "\n".join(failures[:20])
        (last,) = [line for line in lines if line.startswith('{"acknowledged"')]
        figures: dict[str, int] = json.loads(last)
        assert figures["unread"] == 0, figures
        return figures

    def remove(self) -> None:
        self._kubectl.delete("pod", self.name)


class Stopwatch:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    def seconds(self) -> float:
        return time.monotonic() - self._start

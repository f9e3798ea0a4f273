"""`kubectl` as a user has it: each call a process, with the kubeconfig of the cluster under test.

One object speaks about one namespace.
"""

import base64
import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tests.support.waiting import wait_until

Manifest = Mapping[str, Any]
POLL_SECONDS = 0.5


class KubectlError(Exception):
    """A call that failed; the text is all that it said."""


class Kubectl:
    """Calls in one namespace."""

    def __init__(
        self, kubeconfig: Path, program: str = "kubectl", namespace: str = "default"
    ) -> None:
        self.kubeconfig = kubeconfig
        self.program = program
        self.namespace = namespace

    def within(self, namespace: str) -> "Kubectl":
        """The same cluster, another namespace."""
        return Kubectl(self.kubeconfig, self.program, namespace)

    def command(self, *arguments: str) -> list[str]:
        """A command line for a process that the caller looks after."""
        place = ["--kubeconfig", str(self.kubeconfig), "--namespace", self.namespace]
        return [self.program, *place, *arguments]

    def run(self, *arguments: str, text: str | None = None, timeout_seconds: float = 120) -> str:
        """What the call prints. Raises: KubectlError if it fails."""
        done = subprocess.run(
            self.command(*arguments),
            input=text or "",
            capture_output=True,
            text=True,
            timeout=timeout_seconds,
            check=False,
        )
        if done.returncode != 0:
            shown = " ".join(arguments)[:300]
            raise KubectlError(f"{shown}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def apply(self, *manifests: Manifest) -> None:
        """Apply manifests in one call."""
        listed = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        self.run("apply", "-f", "-", text=json.dumps(listed))

    def get(self, kind: str, name: str) -> Any:
        """One object, or None where there is none."""
        text = self.run("get", kind, name, "--output", "json", "--ignore-not-found")
        return json.loads(text) if text.strip() else None

    def list(self, kind: str, selector: str = "") -> list[Any]:
        """All objects of a kind."""
        arguments = ["get", kind, "--output", "json"]
        if selector:
            arguments += ["--selector", selector]
        return list(json.loads(self.run(*arguments))["items"])

    def secret(self, name: str) -> dict[str, str]:
        """The texts of a Secret."""
        data = (self.get("secret", name) or {}).get("data") or {}
        return {key: base64.b64decode(text).decode() for key, text in data.items()}

    def patch(self, kind: str, name: str, patch: Manifest) -> None:
        """A merge patch."""
        self.run("patch", kind, name, "--type", "merge", "--patch", json.dumps(patch))

    def patch_status(self, kind: str, name: str, status: Manifest) -> None:
        """A merge patch of the status, as controllers send it."""
        patch = json.dumps({"status": status})
        what = ["patch", kind, name, "--subresource", "status", "--type", "merge"]
        self.run(*what, "--patch", patch)

    def delete(self, kind: str, name: str, *, is_waiting: bool = True) -> None:
        """Delete one object if it is there."""
        wait = f"--wait={str(is_waiting).lower()}"
        self.run("delete", kind, name, "--ignore-not-found", wait, timeout_seconds=300)

    def wait_for(self, condition: str, *what: str, timeout_seconds: int = 120) -> None:
        """`kubectl wait` until a condition, as `Ready` or `Ready=False`, is there."""
        self.run(
            "wait",
            f"--for=condition={condition}",
            *what,
            f"--timeout={timeout_seconds}s",
            timeout_seconds=timeout_seconds + 30,
        )

    def wait_for_phase(self, pod: str, phase: str, timeout_seconds: int = 180) -> None:
        """A pod has come to a phase, such as `Succeeded`; how far it got is told otherwise."""

        def holds() -> bool:
            found = self.get("pod", pod)["status"]["phase"]
            if found != phase and found in ("Succeeded", "Failed"):
                raise AssertionError(f"{pod} has {found}:\n{self.logs(pod)}")
            return bool(found == phase)

        self.until(holds, timeout_seconds, self.describe_pods)

    def until(
        self, condition: Callable[[], bool], timeout_seconds: float, describe: Callable[[], str]
    ) -> None:
        """Ask again and again, at an interval that leaves the machine to the cluster."""
        wait_until(condition, timeout_seconds, describe, interval_seconds=POLL_SECONDS)

    @contextmanager
    def watching(self, kind: str, name: str) -> Iterator["list[Any]"]:
        """Each state of one object as the API server tells of it, in a list that grows meanwhile.

        Polling misses a state that lasts for less than the time between two looks.
        """
        seen: list[Any] = []
        command = self.command("get", kind, name, "--watch", "--output", "json")
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            reader = threading.Thread(target=_read_documents, args=(process.stdout, seen))
            reader.start()
            try:
                self.until(lambda: bool(seen), 30, lambda: f"no {kind} {name} is told of")
                yield seen
            finally:
                process.kill()
                reader.join()

    def execute(
        self, pod: str, *command: str, text: str | None = None, timeout_seconds: float = 120
    ) -> str:
        """What a command prints in the first container of a pod."""
        # The first container is the default; --quiet leaves its name out of the output.
        arguments = ["exec", "--stdin", "--quiet", pod, "--", *command]
        return self.run(*arguments, text=text, timeout_seconds=timeout_seconds)

    def logs(self, pod: str, *arguments: str) -> str:
        """What the pod has written."""
        return self.run("logs", pod, *arguments)

    def may(self, service_account: str, verb: str, resource: str) -> bool:
        """Whether `namespace:name` has that right in this namespace."""
        user = f"system:serviceaccount:{service_account}"
        done = subprocess.run(
            self.command("auth", "can-i", verb, resource, "--as", user),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        answer = done.stdout.strip()
        if answer not in ("yes", "no"):
            raise KubectlError(f"can-i {verb} {resource}: {done.stdout}{done.stderr}")
        return answer == "yes"

    def make_namespace(self, name: str) -> "Kubectl":
        """A new namespace, and calls in it."""
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        there = self.within(name)
        there.until(
            lambda: there.get("serviceaccount", "default") is not None,
            60,
            lambda: f"no service account in {name}",
        )
        return there

    def remove_namespace(self, name: str, timeout_seconds: int = 180) -> None:
        """Delete a namespace and wait until it is gone."""
        self.run(
            "delete",
            "namespace",
            name,
            "--ignore-not-found",
            f"--timeout={timeout_seconds}s",
            timeout_seconds=timeout_seconds + 30,
        )

    def describe_pods(self) -> str:
        """Pods, events and the ends of logs: what one wants to see of a test that failed."""
        parts = [self.run("get", "pods", "--output", "wide", "--show-labels")]
        parts.append(self.run("get", "events", "--sort-by", ".lastTimestamp"))
        for pod in self.list("pods"):
            name = pod["metadata"]["name"]
            for more in ([], ["--previous"]):
                try:
                    text = self.logs(name, "--all-containers", "--tail=40", *more)
                except KubectlError:
                    continue
                parts.append(f"--- {name} {' '.join(more)}\n{text}")
        return "\n".join(parts)


def _read_documents(stream: IO[str], documents: list[Any]) -> None:
    """JSON documents one after the other, each as soon as it is whole."""
    decoder = json.JSONDecoder()
    text = ""
    for line in stream:
        text += line
        # kubectl indents: only the end of a document stands at the beginning of a line.
        if line == "}\n":
            documents.append(decoder.decode(text))
            text = ""


def condition_of(resource: Any, kind: str) -> Any:
    """A condition of a resource's status, or None."""
    return next(
        (c for c in resource.get("status", {}).get("conditions", ()) if c["type"] == kind), None
    )


def is_ready(resource: Any) -> bool:
    """Whether the status says Ready, of what the spec says now."""
    condition = condition_of(resource, "Ready")
    generation = resource["metadata"].get("generation", 0)
    observed = (condition or {}).get("observedGeneration", generation)
    return condition is not None and condition["status"] == "True" and observed == generation


def names(resources: Iterable[Any]) -> list[str]:
    """The names of resources, sorted."""
    return sorted(resource["metadata"]["name"] for resource in resources)


def run_program(
    command: Sequence[str], *, environment: Mapping[str, str] | None = None, timeout_seconds: float
) -> str:
    """What a program prints, both ways in one. Raises: KubectlError if it fails."""
    done = subprocess.run(
        list(command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **(environment or {})},
        text=True,
        timeout=timeout_seconds,
        check=False,
    )
    if done.returncode != 0:
        raise KubectlError(f"{' '.join(command)[:300]}: exit {done.returncode}\n{done.stdout}")
    return done.stdout

"""A real Kubernetes API server without nodes: etcd, kube-apiserver and two controllers.

The binary is that of the lab for end-to-end tests (`tests/e2e/lab/build.sh` builds it once into the
cache). There is no kubelet, so pods never run; objects, validation by the real CRDs, conflicts,
watches, namespaces and garbage collection are the real ones.
"""

import json
import shutil
import ssl
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from barnabas_operator.crd import KINDS, definition
from barnabas_operator.spec import API_VERSION
from tests.support.lab_programs import lab_program
from tests.support.processes import ManagedProcess, free_port
from tests.support.waiting import wait_until

_TOKEN = "barnabas-tests"
_START_SECONDS = 90
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "verbs": ["get", "list", "watch"]},
        {"level": "None", "resources": [{"group": "coordination.k8s.io"}]},
        {"level": "Metadata"},
    ],
}


def hyperkube() -> Path | None:
    """The cached binary, None where the lab was never built on this machine."""
    return lab_program("hyperkube")


class RealApiServer:
    """Starts on entering, takes some ten seconds and 400 MB; `directory` keeps its files."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port()
        self._etcd_port = free_port()
        self._processes: list[ManagedProcess] = []

    @property
    def address(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def audit_log(self) -> Path:
        return self.directory / "audit.log"

    def kubeconfig(self) -> str:
        """A kubeconfig of an administrator."""
        return json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "test",
                "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
                "clusters": [
                    {
                        "name": "test",
                        "cluster": {"server": self.address, "insecure-skip-tls-verify": True},
                    }
                ],
                "users": [{"name": "test", "user": {"token": _TOKEN}}],
            }
        )

    def writes_since(self, position: int) -> tuple[list[dict[str, Any]], int]:
        """What was written, by the audit log from a position on; and where that ends."""
        text = self.audit_log.read_bytes()[position:] if self.audit_log.exists() else b""
        complete = text[: text.rfind(b"\n") + 1]
        return [json.loads(line) for line in complete.splitlines()], position + len(complete)

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def _start(self) -> None:
        binary = hyperkube()
        assert binary is not None, "ask hyperkube() first"
        self.directory.mkdir(parents=True, exist_ok=True)
        key = self.directory / "service-accounts.key"
        subprocess.run(
            [shutil.which("openssl") or "openssl", "genrsa", "-out", str(key), "2048"],
            check=True,
            capture_output=True,
        )
        (self.directory / "tokens.csv").write_text(f"{_TOKEN},tests,tests,system:masters\n")
        (self.directory / "audit-policy.yaml").write_text(yaml.safe_dump(_AUDIT_POLICY))
        (self.directory / "kubeconfig").write_text(self.kubeconfig())
        self._run([str(binary), *self._etcd_arguments()], "etcd")
        self._run([str(binary), *self._api_server_arguments(key)], "kube-apiserver")
        api_server = self._processes[-1]
        wait_until(self._is_ready, _START_SECONDS, api_server.log_tail)
        self._run([str(binary), *self._controller_arguments(key)], "kube-controller-manager")
        self._install_definitions()

    def _run(self, command: list[str], name: str) -> None:
        self._processes.append(ManagedProcess(command, self.directory / f"{name}.log", {}))

    def _etcd_arguments(self) -> list[str]:
        client = f"http://127.0.0.1:{self._etcd_port}"
        return [
            "etcd",
            f"--data-dir={self.directory / 'etcd'}",
            "--unsafe-no-fsync",
            "--log-level=warn",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls=http://127.0.0.1:{free_port()}",
        ]

    def _api_server_arguments(self, key: Path) -> list[str]:
        return [
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self.port}",
            f"--cert-dir={self.directory / 'certificates'}",
            f"--token-auth-file={self.directory / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-cluster-ip-range=10.96.0.0/16",
            # There is no controller of service accounts that would make those which it wants.
            "--disable-admission-plugins=ServiceAccount",
            f"--audit-policy-file={self.directory / 'audit-policy.yaml'}",
            f"--audit-log-path={self.audit_log}",
        ]

    def _controller_arguments(self, key: Path) -> list[str]:
        return [
            "kube-controller-manager",
            f"--kubeconfig={self.directory / 'kubeconfig'}",
            "--leader-elect=false",
            "--controllers=namespace-controller,garbage-collector-controller",
            f"--service-account-private-key-file={key}",
            "--bind-address=127.0.0.1",
            f"--secure-port={free_port()}",
            f"--cert-dir={self.directory / 'controller-certificates'}",
        ]

    def _install_definitions(self) -> None:
        """Our CRDs, and wait until they are served."""
        for kind in KINDS:
            self._ask("POST", _DEFINITIONS, dict(definition(kind)))

        def are_served() -> bool:
            names = [definition(kind)["spec"]["names"]["plural"] for kind in KINDS]
            return all(self._answers(f"/apis/{API_VERSION}/{name}") for name in names)

        wait_until(are_served, _START_SECONDS, lambda: "the custom resources are not served")

    def _is_ready(self) -> bool:
        # Ready as a whole, and the namespace that every client takes for granted.
        return all(map(self._answers, ("/readyz", "/api/v1/namespaces/default")))

    def _answers(self, path: str) -> bool:
        try:
            self._ask("GET", path)
        except OSError:
            return False
        return True

    def _ask(self, method: str, path: str, document: dict[str, Any] | None = None) -> None:
        """A request of the administrator. Raises: OSError, also for a refusal."""
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        request = urllib.request.Request(
            self.address + path,
            data=None if document is None else json.dumps(document).encode(),
            headers={"Authorization": f"Bearer {_TOKEN}", "Content-Type": "application/json"},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=10, context=context):
                pass
        except urllib.error.HTTPError as error:
            raise OSError(f"{method} {path}: {error.read().decode()}") from error

    def _stop(self) -> None:
        for process in reversed(self._processes):
            if process.is_running():
                process.kill()
        self._processes.clear()

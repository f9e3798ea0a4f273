"""Helm installs, upgrades and uninstalls the chart on a real API server without nodes.

Nothing runs there, so the hooks are left out and their program is called here, with the
ServiceAccount that the chart gives it and no other right.
"""

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas_operator.broker_spec import BrokerSpec, Volume
from barnabas_operator.kubernetes.kinds import kind_of
from barnabas_operator.reconcile.broker.children import Rendering, render
from tests.chart.rendered_chart import CHART
from tests.support.cache import run
from tests.support.real_api_server import RealApiServer, hyperkube
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(
        hyperkube() is None, reason="the API server is not in the cache; `make e2e` builds it"
    ),
]
BARNABAS = "/apis/barnabas.dev/v1alpha1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
VALUES = {
    "networkPolicy": {"enabled": True},
    "dashboards": {"enabled": True},
    "operator": {"replicas": 2},
}


class Release:
    """The release `demo` in the namespace `shop`."""

    def __init__(self, helm: Path, server: RealApiServer, directory: Path) -> None:
        self.server = server
        self._helm = helm
        self._directory = directory
        self._kubeconfig = directory / "kubeconfig"
        self._kubeconfig.write_text(server.kubeconfig())
        self._kubeconfig.chmod(0o600)
        self._token = json.loads(server.kubeconfig())["users"][0]["user"]["token"]

    def helm(self, *arguments: str) -> str:
        place = ["--namespace", "shop", "--kubeconfig", str(self._kubeconfig)]
        command: list[str | Path] = [self._helm, *arguments, *place]
        return run(command, timeout_seconds=90)

    def upgrade(self, values: dict[str, Any]) -> str:
        file = self._directory / "values.json"
        file.write_text(json.dumps(values))
        options = ("--install", "--create-namespace", "--no-hooks", "--values", str(file))
        return self.helm("upgrade", "demo", str(CHART), *options)

    def account(self, name: str) -> Path:
        """What a pod with this ServiceAccount finds mounted."""
        folder = self._directory / name
        folder.mkdir(exist_ok=True)
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        path = f"/api/v1/namespaces/shop/serviceaccounts/{name}/token"
        answer = self.ask("POST", path, body)
        (folder / "token").write_text(answer["status"]["token"])
        certificate = self.server.directory / "certificates" / "apiserver.crt"
        (folder / "ca.crt").write_text(certificate.read_text())
        return folder

    def ask(
        self, method: str, path: str, body: Any = None, token: str | None = None
    ) -> dict[str, Any]:
        """What the API server answers to whom the token is, by default its administrator."""
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        request = urllib.request.Request(
            self.server.address + path,
            None if body is None else json.dumps(body).encode(),
            {"Authorization": f"Bearer {token or self._token}", "Content-Type": "application/json"},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=20, context=context) as answer:
                document: dict[str, Any] = json.load(answer)
                return document
        except urllib.error.HTTPError as error:
            raise OSError(f"{method} {path}: {error.read().decode()}") from error


@pytest.fixture
def release(helm: Path, tmp_path: Path) -> Iterator[Release]:
    with RealApiServer(tmp_path / "server") as server:
        yield Release(helm, server, tmp_path)


def check_children(release: Release, uid: str) -> None:
    """The operator's account may make all that a Broker consists of; a Role is the hardest."""
    token = (release.account("demo-barnabas-operator") / "token").read_text()
    spec = BrokerSpec(name="demo", namespace="shop", uid=uid)
    for child in render(spec, Rendering(image="x", replicas=3, volumes=(Volume(size="1Gi"),))):
        kind = kind_of(child["apiVersion"], child["kind"])
        release.ask("POST", kind.path("shop"), child, token)


def certificate_of(release: Release) -> tuple[dict[str, str], str]:
    """The eviction webhook's certificate, and the authority that the API server was given."""
    name = "demo-barnabas-operator"
    secret = release.ask("GET", f"/api/v1/namespaces/shop/secrets/{name}-webhook")
    (webhook,) = release.ask("GET", f"{WEBHOOKS}/{name}-shop")["webhooks"]
    assert webhook["clientConfig"]["caBundle"] == secret["data"]["ca.crt"]
    return secret["data"], webhook["clientConfig"]["caBundle"]


def names(listed: dict[str, Any]) -> set[str]:
    return {item["metadata"]["name"] for item in listed["items"]}


def test_a_release_comes_changes_and_goes_and_its_definitions_stay(
    release: Release, hook: Any
) -> None:
    """Issue 6: install, upgrade from the revision before, uninstall; data and CRDs stay."""
    for name in names(release.ask("GET", DEFINITIONS)):
        release.ask("DELETE", f"{DEFINITIONS}/{name}")
    wait_until(lambda: not names(release.ask("GET", DEFINITIONS)), 30, lambda: "they stay")
    release.upgrade({})
    certificate = certificate_of(release)
    assert "demo-barnabas-operator" in names(
        release.ask("GET", "/apis/apps/v1/namespaces/shop/deployments")
    )
    # What the Job does, with the rights that it has.
    hooks = release.ask("GET", "/api/v1/namespaces/shop/configmaps/demo-barnabas-hooks")
    manifest = release.server.directory / "broker.json"
    manifest.write_text(hooks["data"]["broker.json"])
    account = str(release.account("demo-barnabas-hooks"))
    address = ("--server", release.server.address, "--account", account)
    hook.main([*address, "apply", str(manifest)])
    broker = release.ask("GET", f"{BARNABAS}/namespaces/shop/brokers/demo")
    assert broker["spec"]["replicas"] == 3
    check_children(release, broker["metadata"]["uid"])
    topic = {
        "apiVersion": "barnabas.dev/v1alpha1",
        "kind": "Topic",
        "metadata": {"name": "orders", "finalizers": ["barnabas.dev/topic"]},
        "spec": {"deletionPolicy": "Delete"},
    }
    release.ask("POST", f"{BARNABAS}/namespaces/shop/topics", topic)

    release.upgrade(VALUES)
    assert "REVISION: 2" in release.helm("status", "demo")
    assert certificate_of(release) == certificate
    operator = ("--namespace", "shop", "--operator", "demo-barnabas-operator")
    hook.main([*address, "clean-up", *operator, "--broker", "demo", "--release", "demo"])
    deployment = release.ask(
        "GET", "/apis/apps/v1/namespaces/shop/deployments/demo-barnabas-operator"
    )
    assert deployment["spec"]["replicas"] == 0
    assert names(release.ask("GET", f"{BARNABAS}/brokers")) == set()
    release.helm("uninstall", "demo", "--no-hooks")
    assert names(release.ask("GET", "/apis/apps/v1/namespaces/shop/deployments")) == set()
    kept = release.ask("GET", f"{BARNABAS}/namespaces/shop/topics/orders")
    assert "finalizers" not in kept["metadata"]

    release.upgrade({})
    assert "STATUS: deployed" in release.helm("status", "demo")

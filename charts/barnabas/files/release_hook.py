# ruff: noqa: INP001, T201, TID251 (a program of its own, in a pod: it prints and has no other clock)
"""What Helm cannot do by itself for a release of Barnabas; the chart's Jobs run it.

`apply FILE` applies the Broker when its API is served: Helm asks for the API of all that it
installs before it installs the resource definitions. `clean-up` stops the operator, takes its
finalizers off all resources (else nobody could delete them, or their namespace, any more), and
deletes the Broker of the release; volumes stay. A Broker whose claims go with it (`deleteClaim`) is
deleted while the operator still runs, which sees to that.

Only the standard library: the file is mounted into a pod. Everything may be done again.
"""

import argparse
import json
import os
import ssl
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
API = "/apis/barnabas.dev/v1alpha1"
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
FINALIZER_PREFIX = "barnabas.dev/"
# On Brokers whose claims go with them.
CLAIMS_FINALIZER = "barnabas.dev/claims"
PAUSE_SECONDS = 1.0
REQUEST_SECONDS = 20.0


class ApiError(Exception):
    """The API server refused; `status` is its code, 0 where it was not reached."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}" if status else text)
        self.status = status

    @property
    def is_passing(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status in (0, 409, 429) or self.status >= 500


class Api:
    """The API server, spoken to with this pod's ServiceAccount."""

    def __init__(self, server: str, account: Path) -> None:
        self._server = server
        self._account = account
        authority = account / "ca.crt"
        self._context = ssl.create_default_context(cafile=authority) if authority.exists() else None

    def ask(
        self, method: str, path: str, body: object = None, content_type: str = "application/json"
    ) -> dict[str, Any]:
        """The answer's document. Raises: ApiError."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._server + path, data, method=method)
        request.add_header("Content-Type", content_type)
        token = self._account / "token"
        if token.exists():
            request.add_header("Authorization", f"Bearer {token.read_text().strip()}")
        try:
            with urllib.request.urlopen(
                request, timeout=REQUEST_SECONDS, context=self._context
            ) as answer:
                document: dict[str, Any] = json.load(answer)
                return document
        except urllib.error.HTTPError as error:
            raise ApiError(error.code, error.read().decode(errors="replace").strip()) from error
        except (OSError, ValueError) as error:
            raise ApiError(0, str(error)) from error


def retried(
    work: Callable[[], dict[str, Any]], deadline: float, *, also: frozenset[int] = frozenset()
) -> dict[str, Any]:
    """The result of work that is tried again while its failure may pass, until the deadline."""
    while True:
        try:
            return work()
        except ApiError as error:
            if not (error.is_passing or error.status in also) or time.monotonic() > deadline:
                raise
            print(f"waiting: {error}", flush=True)
        time.sleep(PAUSE_SECONDS)


def apply(api: Api, path: Path, deadline: float) -> None:
    """Apply the resource in the file; its API may still be on its way (404)."""
    manifest = json.loads(path.read_text())
    name, namespace = manifest["metadata"]["name"], manifest["metadata"]["namespace"]
    target = f"{API}/namespaces/{namespace}/brokers/{name}?fieldManager=barnabas-chart&force=true"
    retried(lambda: api.ask("PATCH", target, manifest, APPLY), deadline, also=frozenset({404}))
    print(f"broker {namespace}/{name} applied")


def stop_operator(api: Api, namespace: str, name: str, release: str, deadline: float) -> None:
    """Scale the operator to nothing, and wait for its last pod: it would put finalizers back."""
    target = f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
    try:
        retried(lambda: api.ask("PATCH", target, {"spec": {"replicas": 0}}, MERGE), deadline)
    except ApiError as error:
        if error.status != 404:
            raise
    selector = f"app.kubernetes.io/name=barnabas-operator,app.kubernetes.io/instance={release}"
    pods = f"/api/v1/namespaces/{namespace}/pods?labelSelector={selector.replace(',', '%2C')}"
    while retried(lambda: api.ask("GET", pods), deadline)["items"]:
        if time.monotonic() > deadline:
            raise ApiError(0, "the operator's pods do not end")
        time.sleep(PAUSE_SECONDS)
    print("the operator is stopped")


def remove_finalizers(api: Api, plural: str, namespaces: list[str], deadline: float) -> None:
    """Take our finalizers off all resources of a kind, of all namespaces where none is named."""
    places = [f"{API}/namespaces/{name}/{plural}" for name in namespaces] or [f"{API}/{plural}"]
    for place in places:
        for item in _items(api, place, deadline):
            metadata = item["metadata"]
            finalizers = metadata.get("finalizers", [])
            kept = [one for one in finalizers if not one.startswith(FINALIZER_PREFIX)]
            if kept != finalizers:
                _set_finalizers(api, plural, metadata, kept, deadline)


def _items(api: Api, place: str, deadline: float) -> list[dict[str, Any]]:
    try:
        found: list[dict[str, Any]] = retried(lambda: api.ask("GET", place), deadline)["items"]
    except ApiError as error:
        if error.status != 404:  # the resource definitions are gone, and so is all they defined
            raise
        return []
    return found


def _set_finalizers(
    api: Api, plural: str, metadata: dict[str, Any], kept: list[str], deadline: float
) -> None:
    namespace, name = metadata["namespace"], metadata["name"]
    # With the uid: what has the same name by now is another's.
    patch = {"metadata": {"uid": metadata["uid"], "finalizers": kept}}
    target = f"{API}/namespaces/{namespace}/{plural}/{name}"
    try:
        retried(lambda: api.ask("PATCH", target, patch, MERGE), deadline)
    except ApiError as error:
        if error.status != 404:
            raise
    print(f"{plural} {namespace}/{name}: finalizers removed")


def delete_broker(
    api: Api, namespace: str, name: str, release: str, deadline: float, *, with_claims: bool
) -> bool:
    """Delete the Broker if this release made it, and its claims go with it or stay.

    Returns whether it was deleted.
    """
    target = f"{API}/namespaces/{namespace}/brokers/{name}"
    try:
        broker = retried(lambda: api.ask("GET", target), deadline)
        metadata = broker["metadata"]
        annotations = metadata.get("annotations", {})
        if annotations.get("meta.helm.sh/release-name") != release:
            return False
        if (CLAIMS_FINALIZER in metadata.get("finalizers", [])) != with_claims:
            return False
        options = {
            "propagationPolicy": "Background",
            "preconditions": {"uid": broker["metadata"]["uid"]},
        }
        retried(lambda: api.ask("DELETE", target, options), deadline)
    except ApiError as error:
        if error.status != 404:
            raise
        return False
    print(f"broker {namespace}/{name} deleted; its volumes {'go' if with_claims else 'stay'}")
    return True


def wait_for_end(api: Api, namespace: str, name: str, deadline: float) -> None:
    """Wait for the operator to see a Broker and its claims off; without one, until the deadline."""
    target = f"{API}/namespaces/{namespace}/brokers/{name}"
    try:
        while retried(lambda: api.ask("GET", target), deadline) and time.monotonic() < deadline:
            time.sleep(PAUSE_SECONDS)
    except ApiError as error:
        if error.status != 404:
            raise
        return
    print(f"broker {namespace}/{name} does not end: what is left of its volumes stays")


def main(arguments: list[str]) -> None:
    """Do what the arguments say. Raises: ApiError."""
    parser = argparse.ArgumentParser()
    host = os.environ.get("KUBERNETES_SERVICE_HOST", "kubernetes.default.svc")
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    shown = f"[{host}]" if ":" in host else host
    parser.add_argument("--server", default=f"https://{shown}:{port}")
    parser.add_argument("--timeout", type=float, default=200.0, help="seconds")
    parser.add_argument("--account", type=Path, default=ACCOUNT, help="folder of a token")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("apply").add_argument("file", type=Path)
    cleaning = commands.add_parser("clean-up")
    for name in ("namespace", "operator", "broker", "release"):
        cleaning.add_argument(f"--{name}", required=True)
    cleaning.add_argument("--watched", action="append", default=[])
    asked = parser.parse_args(arguments)
    api = Api(asked.server, asked.account)
    deadline = time.monotonic() + asked.timeout
    if asked.command == "apply":
        apply(api, asked.file, deadline)
        return
    broker = (api, asked.namespace, asked.broker)
    if delete_broker(*broker, asked.release, deadline, with_claims=True):
        wait_for_end(*broker, time.monotonic() + asked.timeout / 2)
    stop_operator(api, asked.namespace, asked.operator, asked.release, deadline)
    for plural in ("topics", "consumergroups", "users", "brokers"):
        remove_finalizers(api, plural, asked.watched, deadline)
    delete_broker(*broker, asked.release, deadline, with_claims=False)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ApiError as failure:
        sys.exit(f"failed: {failure}")

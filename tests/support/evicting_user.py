"""Somebody who drains nodes: evicts pods at an API server, real or fake."""

import base64
import json
import ssl
from pathlib import Path
from typing import Any

import aiohttp

from tests.support.admission import webhook_rules
from tests.support.fake_kubernetes import FakeKubernetes
from tests.support.real_api_server import RealApiServer

_CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


class EvictingUser:
    """Acts in one namespace; the fake API server knows of one webhook at a time."""

    def __init__(self, server: FakeKubernetes | RealApiServer, namespace: str) -> None:
        self._server = server
        self._namespace = namespace
        self._headers = {}
        if isinstance(server, RealApiServer):
            (user,) = json.loads(server.kubeconfig())["users"]
            self._headers["Authorization"] = f"Bearer {user['user']['token']}"

    async def call(
        self, method: str, path: str, body: Any = None
    ) -> tuple[int, dict[str, Any], list[str]]:
        """Status, document and warnings."""
        async with (
            aiohttp.ClientSession(headers=self._headers) as session,
            session.request(method, self._server.address + path, json=body, ssl=False) as answer,
        ):
            warnings = answer.headers.getall("Warning", [])
            return answer.status, await answer.json(), list(warnings)

    async def evict(self, pod: str, **options: Any) -> tuple[int, str, list[str]]:
        """Evict a pod; status, message and warnings."""
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": self._namespace},
            "deleteOptions": options,
        }
        path = f"/api/v1/namespaces/{self._namespace}/pods/{pod}/eviction"
        status, document, warnings = await self.call("POST", path, eviction)
        return status, str(document.get("message") or ""), warnings

    async def register(self, url: str, authority: Path) -> None:
        """Have evictions in this namespace asked about at an address."""
        if isinstance(self._server, FakeKubernetes):
            trust = ssl.create_default_context(cafile=authority)
            self._server.eviction_webhook = (url, trust)
            return
        bundle = base64.b64encode(authority.read_bytes()).decode()
        selector = {"matchLabels": {"kubernetes.io/metadata.name": self._namespace}}
        webhook = {
            **webhook_rules(),
            "clientConfig": {"url": url, "caBundle": bundle},
            "namespaceSelector": selector,
        }
        configuration = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": self._namespace},
            "webhooks": [webhook],
        }
        status, document, _ = await self.call("POST", _CONFIGURATIONS, configuration)
        assert status == 201, document

    async def clean_up(self, *pods: str) -> None:
        """Take the webhook away, and pods that no kubelet would ever end."""
        if isinstance(self._server, FakeKubernetes):
            self._server.eviction_webhook = None
            return
        await self.call("DELETE", f"{_CONFIGURATIONS}/{self._namespace}")
        for pod in pods:
            path = f"/api/v1/namespaces/{self._namespace}/pods/{pod}"
            await self.call("DELETE", path, {"gracePeriodSeconds": 0})

"""Reading the API server: lists of objects, by the pod's own account or through `kubectl proxy`.

Not here: what a page shows of them (`resource_rows.py`). There is no client library, because three
kinds of GET are all: the library's import is as large as the console.

Invariants: nothing is written; a list is read by pages and to at most `OBJECTS_MAX`, and no answer
above `ANSWER_BYTES_MAX` is held.
"""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp

from barnabas_console.http_bodies import body_of

GROUP: Final = "/apis/barnabas.dev/v1alpha1"
CORE: Final = "/api/v1"
IN_CLUSTER: Final = "in-cluster"
OBJECTS_MAX: Final = 5_000
ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
_PAGE_OBJECTS: Final = 500
_TIMEOUT_SECONDS: Final = 5
_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class KubernetesError(Exception):
    """The API server did not answer as it should; the message says what it said."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Objects:
    """A list; `is_whole` is false where there are more."""

    items: list[dict[str, Any]]
    is_whole: bool


class ApiReader:
    """The API server of one cluster, by one account: a namespace, or all that it has."""

    def __init__(self, url: str, *, namespace: str = "", account: Path | None = None) -> None:
        """Without a namespace it is the pod's own, outside of a pod all."""
        self._url = url.rstrip("/")
        self._given_namespace = namespace
        self._account = account
        self._session: aiohttp.ClientSession | None = None

    @classmethod
    def of_setting(cls, setting: str, namespace: str = "") -> ApiReader:
        """The reader that a setting means: `in-cluster`, or the address of `kubectl proxy`.

        Raises: KubernetesError outside of a pod.
        """
        if setting != IN_CLUSTER:
            return cls(setting, namespace=namespace)
        host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), "KUBERNETES_SERVICE_PORT"
        if not host:
            raise KubernetesError("this is no pod: name an API server, such as kubectl proxy's")
        host = f"[{host}]" if ":" in host else host
        url = f"https://{host}:{os.environ.get(port, '443')}"
        return cls(url, namespace=namespace, account=_ACCOUNT)

    @property
    def namespace(self) -> str | None:
        """The namespace that is read; None for all."""
        if self._given_namespace or self._account is None:
            return self._given_namespace or None
        try:
            return (self._account / "namespace").read_text("utf-8").strip()
        except OSError:
            return None

    @property
    def scope(self) -> str:
        """The part of a path that names the namespace."""
        name = self.namespace
        return f"/namespaces/{name}" if name else ""

    async def brokers(self) -> list[dict[str, Any]]:
        """All Brokers. Raises: KubernetesError."""
        return (await self.list(f"{GROUP}{self.scope}/brokers")).items

    async def topics(self) -> list[dict[str, Any]]:
        """All Topics. Raises: KubernetesError."""
        return (await self.list(f"{GROUP}{self.scope}/topics")).items

    async def list(self, path: str, parameters: Mapping[str, str] | None = None) -> Objects:
        """All objects of a path. Raises: KubernetesError."""
        items: list[dict[str, Any]] = []
        goes_on = ""
        while True:
            given = {**(parameters or {}), "limit": str(_PAGE_OBJECTS)}
            if goes_on:
                given["continue"] = goes_on
            answer = await self._get(path, given)
            items += [one for one in answer.get("items") or () if isinstance(one, dict)]
            goes_on = str((answer.get("metadata") or {}).get("continue") or "")
            if not goes_on or len(items) >= OBJECTS_MAX:
                return Objects(items=items[:OBJECTS_MAX], is_whole=not goes_on)

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def _get(self, path: str, parameters: Mapping[str, str]) -> dict[str, Any]:
        try:
            session = self._opened()
            async with session.get(
                f"{self._url}{path}", params=parameters, headers=self._credentials()
            ) as response:
                body = await body_of(response, ANSWER_BYTES_MAX)
                if body is None:
                    raise KubernetesError("the API server's answer is too large")
                if response.status != 200:
                    raise KubernetesError(_message(body, response.status), response.status)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise KubernetesError(f"the API server does not answer: {error}") from error
        try:
            found = json.loads(body)
        except ValueError as error:
            raise KubernetesError("the API server did not answer in JSON") from error
        if not isinstance(found, dict):
            raise KubernetesError("the API server did not answer with a list")
        return found

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            trusted: ssl.SSLContext | bool = True
            if self._account is not None:
                trusted = ssl.create_default_context(cafile=str(self._account / "ca.crt"))
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS),
                connector=aiohttp.TCPConnector(limit=4, ssl=trusted),
            )
        return self._session

    def _credentials(self) -> dict[str, str]:
        """The token, read anew each time: the kubelet replaces it."""
        if self._account is None:
            return {}
        token = (self._account / "token").read_text("utf-8").strip()
        return {"Authorization": f"Bearer {token}"}


def _message(body: bytes, status: int) -> str:
    """What a `Status` says."""
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    said = found.get("message") if isinstance(found, dict) else None
    return f"the API server refused with {status}: {said or 'no reason given'}"

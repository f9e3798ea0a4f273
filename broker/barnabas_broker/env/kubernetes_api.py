"""Requests to the Kubernetes API server, with the rights of the pod's service account.

Not a client of the whole API: it sends one document and returns the response. The token is read
again every minute, because the kubelet renews it long before it ends, and when it is refused; the
authority's file when a connection could not be made.

Source: Kubernetes' documentation, "Accessing the Kubernetes API from a Pod".
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from barnabas_broker.env.clock import Clock
from barnabas_broker.env.disk import Disk
from barnabas_broker.env.http_client import (
    HttpClient,
    HttpResponse,
    NotSentError,
    TlsSettings,
)

# A projected token is renewed at 80 % of its life, which is at least ten minutes.
TOKEN_AGE_MS_MAX: Final = 60_000
_UNAUTHORIZED: Final = 401


class KubernetesAccess(NamedTuple):
    """Where the API server is and what we show it."""

    server: str  # https://host:port
    token_file: str | None  # None: no token, for servers that let everybody in
    authority_file: str | None
    request_timeout_ms: int = 5000


def server_of_pod(environment: Mapping[str, str] | None = None) -> str | None:
    """The API server's address as the kubelet gives it to each pod; None outside of one.

    It is in the environment of the process, unless another one is given.
    """
    environment = os.environ if environment is None else environment
    host = environment.get("KUBERNETES_SERVICE_HOST")
    if not host:
        return None
    port = environment.get("KUBERNETES_SERVICE_PORT", "443")
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


class KubernetesApi:
    """The API server, as this pod may use it."""

    __slots__ = ("_access", "_clock", "_disk", "_http", "_token", "_token_read_ms")

    def __init__(self, disk: Disk, clock: Clock, access: KubernetesAccess) -> None:
        """Connects with the first request."""
        self._disk = disk
        self._clock = clock
        self._access = access
        self._http = HttpClient(TlsSettings(access.authority_file))
        self._token: str | None = None
        self._token_read_ms = 0

    async def send(
        self, method: str, path: str, document: Mapping[str, Any] | None = None
    ) -> HttpResponse:
        """The response of the API server, whatever its status.

        Raises: NotSentError, NoResponseError.
        """
        response = await self._send(method, path, document)
        if response.status == _UNAUTHORIZED and self._access.token_file is not None:
            # Refused before anything was done: to repeat it is safe.
            self._token = None
            response = await self._send(method, path, document)
        return response

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()

    async def _send(
        self, method: str, path: str, document: Mapping[str, Any] | None
    ) -> HttpResponse:
        # The keys of ServiceAccounts are served as a key set only: 406 to who takes JSON alone.
        headers = {"Accept": "application/json, application/jwk-set+json"}
        token = await self._current_token()
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        return await self._http.send(
            method,
            self._access.server + path,
            document=document,
            headers=headers,
            timeout_ms=self._access.request_timeout_ms,
        )

    async def _current_token(self) -> str | None:
        """The token, from memory while it is fresh. Raises: NotSentError if it cannot be read."""
        path, now_ms = self._access.token_file, self._clock.monotonic_ms()
        if path is None:
            return None
        if self._token is None or now_ms - self._token_read_ms >= TOKEN_AGE_MS_MAX:
            try:
                data = await self._disk.run(self._disk.read_bytes, path)
                self._token = bytes(data).decode("ascii").strip()
            except (OSError, ValueError) as error:
                raise NotSentError(f"the service account's token: {error}") from error
            self._token_read_ms = now_ms
        return self._token

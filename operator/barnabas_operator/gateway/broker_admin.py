"""What brokers say about themselves, over the HTTP of their admin port.

Asked directly, pod by pod: a broker that is starting, recovering or draining answers here when it
does not, or no longer, take part in the cluster.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator, Mapping
from typing import Any

import aiohttp

from barnabas_operator.gateway.client_access import ClientAccess
from barnabas_operator.reconcile.broker.listener_plan import (
    CERTIFICATES,
    CLIENTS,
    EXTERNAL,
    PLAIN,
)
from barnabas_operator.reconcile.broker.names import ADMIN_PORT
from barnabas_operator.reconcile.broker.observed import ListenerTls, ProcessView

# A broker that does not answer in this time counts as silent; the next look is soon.
TIMEOUT_SECONDS = 3.0

_SECURE = (CLIENTS, CERTIFICATES)
_ROOMY = "ENOUGH"
_RUNNING = "RUNNING"


class BrokerAdmin:
    """Asks brokers."""

    def __init__(self, port: int = ADMIN_PORT, *, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._port = port
        self._timeout_seconds = timeout_seconds

    async def statuses(
        self, addresses: Mapping[int, str], access: ClientAccess | None = None
    ) -> dict[int, ProcessView]:
        """What the brokers at these addresses say; those that do not answer are absent.

        With `access` each is asked by TLS, and in plain text only where that allows it.
        """
        if not addresses:
            return {}
        context = None if access is None else access.pod_context()
        timeout = aiohttp.ClientTimeout(total=self._timeout_seconds)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            asked = (
                self._either(session, address, context, access) for address in addresses.values()
            )
            answers = await asyncio.gather(*asked)
        return {
            node_id: answer
            for node_id, answer in zip(addresses, answers, strict=True)
            if answer is not None
        }

    async def _either(
        self,
        session: aiohttp.ClientSession,
        address: str,
        context: ssl.SSLContext | None,
        access: ClientAccess | None,
    ) -> ProcessView | None:
        if context is not None and access is not None:
            told = await self._status(session, address, context)
            if told is not None or not access.allows_plain:
                return told
        return await self._status(session, address, None)

    async def _status(
        self, session: aiohttp.ClientSession, address: str, context: ssl.SSLContext | None
    ) -> ProcessView | None:
        host = f"[{address}]" if ":" in address else address
        scheme = "http" if context is None else "https"
        try:
            async with session.get(
                f"{scheme}://{host}:{self._port}/status", ssl=context or True
            ) as answer:
                return process_view(await answer.json()) if answer.status == 200 else None
        except (TimeoutError, aiohttp.ClientError, ValueError, KeyError, TypeError):
            return None


def process_view(document: Any) -> ProcessView:
    """The fields of `/status` that the operator reads. Raises: KeyError, TypeError, ValueError."""
    plain, secure = _connections(document)
    return ProcessView(
        node_id=int(document["node_id"]),
        state=str(document["state"]),
        is_fenced=bool(document["is_fenced"]),
        drain=str(document["drain"]),
        size_bytes=int(document["size_bytes"]),
        full_disks=tuple(_full_disks(document.get("log_directories", ()))),
        # One that starts has not looked through them yet.
        held=_held(document.get("log_directories", ())) if document["state"] == _RUNNING else {},
        tls=_tls(document.get("tls") or {}),
        metadata_members=frozenset(map(int, document.get("metadata_members", ()))),
        plain_connections=plain,
        secure_connections=secure,
    )


def _tls(listeners: Any) -> dict[str, ListenerTls]:
    """What each listener with TLS has loaded; older brokers have none."""
    return {
        str(name): ListenerTls(
            trust=told.get("trust_sha256"), certificate=str(told.get("certificate_sha256", ""))
        )
        for name, told in listeners.items()
    }


def _connections(document: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Clients without TLS and with it, None where the broker does not say.

    An external listener that has no certificate, or none yet, is told of as one without TLS.
    """
    by_listener = document.get("connections_by_listener")
    if not isinstance(by_listener, dict):
        return None, None
    count = {name: int(by_listener.get(name, 0)) for name in (PLAIN, *_SECURE, EXTERNAL)}
    external = count[EXTERNAL]
    if EXTERNAL in (document.get("tls") or {}):
        without_tls = document.get("plaintext_connections_by_listener") or {}
        external = int(without_tls.get(EXTERNAL, 0))
    secure = sum(count[name] for name in _SECURE) + count[EXTERNAL] - external
    return count[PLAIN] + external, secure


def _held(directories: Any) -> dict[str, int]:
    """How many logs each directory has; those that are offline, or of older brokers, are absent."""
    return {
        str(one["path"]): int(one["logs"]) + int(one["strays"])
        for one in directories
        if one.get("online") and "logs" in one and "strays" in one
    }


def _full_disks(directories: Any) -> Iterator[str]:
    """The directories whose guard has stopped something; older brokers have no guard."""
    for one in directories:
        guard = str(one.get("guard", _ROOMY))
        if guard != _ROOMY:
            # Not how much is free: that changes with every look, and would be written each time.
            reserve, total = one["reserve_bytes"], one["total_bytes"]
            yield f"{one['path']} is {guard}, reserve {reserve} of {total} bytes"

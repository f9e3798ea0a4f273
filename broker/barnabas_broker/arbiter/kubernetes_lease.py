"""The arbiter in one Lease of Kubernetes, by optimistic concurrency.

The token is the Lease's resource version. A swap is a PUT of the whole Lease, with the version and
the uid that it was read with: the API server refuses it with 409 if either is another one by now. A
read is a GET without a resource version, which the API server serves from etcd's majority or from
a cache that it has checked against it, never from an older state.

Not here: the Lease's fields (`lease_document`), the requests (`kubernetes_api`), watches; changes
are found by reading.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from barnabas_broker.arbiter.arbiter import ArbiterError, ArbiterRecord, Stored, SwapOutcome
from barnabas_broker.arbiter.fault_log import FaultLog
from barnabas_broker.arbiter.lease_document import lease_with, stored_in
from barnabas_broker.arbiter.polling import changes
from barnabas_broker.env.http_client import HttpResponse, NoResponseError, NotSentError
from barnabas_broker.env.kubernetes_api import KubernetesApi

logger = logging.getLogger(__name__)

NO_LEASE: Final = Stored(None, 0)


class KubernetesLeaseArbiter:
    """One Lease; its resource version is the token, 0 where there is no Lease."""

    __slots__ = (
        "_api",
        "_faults",
        "_lease",
        "_name",
        "_namespace",
        "_path",
        "_poll_interval_ms",
    )

    def __init__(
        self, api: KubernetesApi, namespace: str, name: str, poll_interval_ms: int = 1000
    ) -> None:
        """The namespace has to exist; the Lease is made by the first swap, or beforehand."""
        self._api = api
        self._namespace = namespace
        self._name = name
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._poll_interval_ms = poll_interval_ms
        self._faults = FaultLog(logger)
        # As last seen, for what others have put into it; None before the first reading.
        self._lease: Mapping[str, Any] | None = None

    async def read(self) -> Stored:
        """The record in the Lease as of now. Raises: ArbiterError."""
        try:
            response = await self._api.send("GET", f"{self._path}/{self._name}")
        except (NotSentError, NoResponseError) as error:
            raise ArbiterError(f"Kubernetes: {error}") from error
        if _is_missing(response):
            self._lease = None
            return NO_LEASE
        if response.status != 200:
            raise ArbiterError(f"Kubernetes: {response}")
        lease = response.document()
        stored = stored_in(lease)
        self._lease = lease
        return stored

    async def compare_and_swap(self, expected_token: int, record: ArbiterRecord) -> SwapOutcome:
        """Create the Lease, or replace it if its resource version is the one expected."""
        try:
            if expected_token == NO_LEASE.token:
                new = lease_with(record, None, self._namespace, self._name)
                response = await self._api.send("POST", self._path, new)
            else:
                found = await self._found(expected_token)
                if found is None:
                    return SwapOutcome.CONFLICT
                new = lease_with(record, found, self._namespace, self._name)
                response = await self._api.send("PUT", f"{self._path}/{self._name}", new)
        except (ArbiterError, NotSentError, NoResponseError) as error:
            self._faults.report("the arbiter's Lease may or may not be changed", error)
            return SwapOutcome.UNKNOWN
        if response.status in (200, 201):
            self._faults.clear()
            return SwapOutcome.STORED
        # Taken already, another version or, after its removal, another uid; or not there any more.
        if response.status == 409 or (expected_token != NO_LEASE.token and _is_missing(response)):
            return SwapOutcome.CONFLICT
        self._faults.report(
            "the arbiter's Lease may or may not be changed", f"Kubernetes: {response}"
        )
        return SwapOutcome.UNKNOWN

    def watch(self) -> AsyncIterator[Stored]:
        """The record now and after each change, looked for from time to time."""
        return changes(self.read, self._poll_interval_ms)

    async def close(self) -> None:
        """Close the connections."""
        await self._api.close()

    async def _found(self, token: int) -> Mapping[str, Any] | None:
        """The Lease with this token, as it was seen; None if it is another one by now.

        Raises: ArbiterError.
        """
        is_seen = self._lease is not None and stored_in(self._lease).token == token
        if not is_seen and (await self.read()).token != token:
            return None
        return self._lease


def _is_missing(response: HttpResponse) -> bool:
    """Whether the API server itself, not something before it, reports that there is no Lease."""
    if response.status != 404:
        return False
    status = response.document()
    return status.get("kind") == "Status" and status.get("reason") == "NotFound"

"""What carries the quorum's requests to other nodes; `peer_transport` does it over connections.

Not here: when and what to ask (`metadata_quorum`). Responses may be late or missing, never wrong:
each is to the request with which it is returned.
"""

from __future__ import annotations

from typing import Final, Protocol

from barnabas_broker.env.disk import Buffer
from barnabas_broker.metadata.log_ends import LogEnd
from barnabas_broker.metadata.quorum.messages import (
    FetchRefused,
    PromiseRequest,
    PromiseResponse,
    QuorumFetchRequest,
    QuorumFetchResponse,
)

# How long a leader holds a fetch back that it has nothing new for: an idle cluster's pace.
FETCH_WAIT_MS_MAX: Final = 500


class QuorumTransport(Protocol):
    """Asks other nodes; raises an OSError where a node cannot be reached or does not answer."""

    async def request_promise(
        self, node_id: int, request: PromiseRequest, timeout_ms: int
    ) -> PromiseResponse:
        """The response to a request for a promise. Raises: OSError."""
        ...

    async def fetch_records(
        self, node_id: int, request: QuorumFetchRequest, timeout_ms: int
    ) -> tuple[QuorumFetchResponse | FetchRefused, Buffer]:
        """The response to a fetch, with the record batches that come with `RecordsResponse`.

        The other side holds it back for `FETCH_WAIT_MS_MAX`, which is less than the timeout.
        Raises: OSError.
        """
        ...

    async def fetch_snapshot(self, node_id: int, snapshot: LogEnd, timeout_ms: int) -> bytes:
        """The content of a snapshot file. Raises: OSError, also where it is not there any more."""
        ...


class NobodyElse:
    """The transport of a node without others."""

    async def request_promise(
        self, node_id: int, request: PromiseRequest, timeout_ms: int
    ) -> PromiseResponse:
        """Nobody is there."""
        raise ConnectionError(f"there is no way to node {node_id}")

    async def fetch_records(
        self, node_id: int, request: QuorumFetchRequest, timeout_ms: int
    ) -> tuple[QuorumFetchResponse | FetchRefused, Buffer]:
        """Nobody is there."""
        raise ConnectionError(f"there is no way to node {node_id}")

    async def fetch_snapshot(self, node_id: int, snapshot: LogEnd, timeout_ms: int) -> bytes:
        """Nobody is there."""
        raise ConnectionError(f"there is no way to node {node_id}")

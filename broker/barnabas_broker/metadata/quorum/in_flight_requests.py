"""Requests of this node to others that are in flight: at most one of each kind and node.

The rules send again whenever they do not know whether a response is still to come; the same request
twice would only cost. Another request of the same kind takes the place of the one before.

Not here: what the responses mean.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeVar

from barnabas_broker.env.disk import Buffer
from barnabas_broker.metadata.quorum.messages import (
    FetchRefused,
    PromiseRequest,
    PromiseResponse,
    QuorumFetchRequest,
    QuorumFetchResponse,
    SnapshotResponse,
)
from barnabas_broker.metadata.quorum.transport import FETCH_WAIT_MS_MAX, QuorumTransport

logger = logging.getLogger(__name__)

Response = TypeVar("Response")
OutboundRequest = PromiseRequest | QuorumFetchRequest | SnapshotResponse

PROMISE_TIMEOUT_MS: Final = 1000
FETCH_TIMEOUT_MS: Final = FETCH_WAIT_MS_MAX + 1500
SNAPSHOT_TIMEOUT_MS: Final = 60_000


class InFlightRequests:
    """The requests in flight. `on_failure` is called where a node did not respond."""

    __slots__ = ("_on_failure", "_requests", "_transport")

    def __init__(
        self, transport: QuorumTransport, on_failure: Callable[[int, OutboundRequest], None]
    ) -> None:
        self._transport = transport
        self._on_failure = on_failure
        self._requests: dict[tuple[str, int], tuple[OutboundRequest, asyncio.Task[None]]] = {}

    @property
    def has_any(self) -> bool:
        """Whether a response is expected."""
        return bool(self._requests)

    def promise(
        self,
        node_id: int,
        request: PromiseRequest,
        on_response: Callable[[PromiseResponse], None],
    ) -> None:
        """Request a promise of a member."""
        send = partial(self._transport.request_promise, node_id, request, PROMISE_TIMEOUT_MS)
        self._send("promise", node_id, request, send, on_response)

    def fetch(
        self,
        node_id: int,
        request: QuorumFetchRequest,
        on_response: Callable[[tuple[QuorumFetchResponse | FetchRefused, Buffer]], None],
    ) -> None:
        """Fetch records of the leader, or of the member with the best log. One fetch at all."""
        for kind, other in list(self._requests):
            if kind == "fetch" and other != node_id:
                self._drop((kind, other))
        send = partial(self._transport.fetch_records, node_id, request, FETCH_TIMEOUT_MS)
        self._send("fetch", node_id, request, send, on_response)

    def snapshot(self, response: SnapshotResponse, on_response: Callable[[bytes], None]) -> None:
        """Fetch the snapshot that a response has named."""
        node_id, name = response.source.node_id, response.snapshot
        send = partial(self._transport.fetch_snapshot, node_id, name, SNAPSHOT_TIMEOUT_MS)
        self._send("snapshot", node_id, response, send, on_response)

    async def close(self) -> None:
        """Wait for no response any more."""
        tasks = [task for _, task in self._requests.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._requests.clear()

    def _send(
        self,
        kind: str,
        node_id: int,
        request: OutboundRequest,
        send: Callable[[], Awaitable[Response]],
        on_response: Callable[[Response], None],
    ) -> None:
        key = (kind, node_id)
        known = self._requests.get(key)
        if known is not None and known[0] == request:
            return
        self._drop(key)
        task = asyncio.create_task(
            self._run(key, request, send, on_response), name=f"metadata {kind}"
        )
        self._requests[key] = (request, task)

    def _drop(self, key: tuple[str, int]) -> None:
        known = self._requests.pop(key, None)
        if known is not None:
            known[1].cancel()

    async def _run(
        self,
        key: tuple[str, int],
        request: OutboundRequest,
        send: Callable[[], Awaitable[Response]],
        on_response: Callable[[Response], None],
    ) -> None:
        kind, node_id = key
        try:
            response = await send()
        except Exception as error:
            # Whatever it is: a request that seems to be in flight is never sent again.
            if not isinstance(error, OSError):
                logger.exception("asking node %d for a %s failed", node_id, kind)
            self._forget(key)
            self._on_failure(node_id, request)
            return
        self._forget(key)
        on_response(response)

    def _forget(self, key: tuple[str, int]) -> None:
        known = self._requests.get(key)
        if known is not None and known[1] is asyncio.current_task():
            del self._requests[key]

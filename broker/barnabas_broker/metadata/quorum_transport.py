"""Carries the quorum's questions to other nodes, over connections between brokers.

Promises, fetches and snapshots have a connection each: a fetch is held back at the leader until
there is something new, and a snapshot is large. An answer to another question than the asked one
counts as none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from barnabas_broker.env.disk import Buffer
from barnabas_broker.metadata.log_ends import LogEnd
from barnabas_broker.metadata.quorum_messages import (
    FetchAnswered,
    FetchAsked,
    FetchRefused,
    PromiseAnswered,
    PromiseAsked,
)
from barnabas_broker.metadata.quorum_transport_protocol import FETCH_WAIT_MS_MAX
from barnabas_broker.metadata.quorum_wire import (
    Receiver,
    fetch_answered,
    fetch_request,
    promise_answered,
    promise_request,
)
from barnabas_broker.network.peers import Peers, PeerUnreachableError
from barnabas_protocol.errors import ParseError
from barnabas_protocol.ids import ZERO_UUID
from barnabas_protocol.messages.metadata_snapshot import MetadataSnapshotRequest

_VERSION = 0
SNAPSHOT_PIECE_BYTES: Final = 4 * 1024 * 1024
SNAPSHOT_BYTES_MAX: Final = 1 << 30
"""A million partitions take a fifth of it; what is larger is not a snapshot of ours."""


class PeerTransport:
    """The quorum's transport over `Peers`."""

    def __init__(
        self,
        peers: Peers,
        *,
        cluster_id: Callable[[], str | None],
        history_id: Callable[[], bytes] = lambda: ZERO_UUID,
    ) -> None:
        """Make one for a broker; the ids are None, empty or zero as long as they are not known."""
        self._peers = peers
        self._history_id = history_id
        self._cluster_id = cluster_id

    async def ask_promise(
        self, node_id: int, asked: PromiseAsked, timeout_ms: int
    ) -> PromiseAnswered:
        """The answer to a request for a promise.

        Raises: PeerUnreachableError.
        """
        request = promise_request(asked, self._receiver(node_id))
        answered = promise_answered(await self._ask(node_id, request, "quorum", timeout_ms))
        if answered.controller_epoch != asked.controller_epoch:
            raise PeerUnreachableError(node_id, "it has answered another question")
        return answered

    async def ask_fetch(
        self, node_id: int, asked: FetchAsked, timeout_ms: int
    ) -> tuple[FetchAnswered | FetchRefused, Buffer]:
        """The answer to a fetch, with the record batches that come with `RecordsAnswered`.

        Raises: PeerUnreachableError.
        """
        wait_ms_max = min(FETCH_WAIT_MS_MAX, timeout_ms // 2)
        request = fetch_request(asked, self._receiver(node_id), wait_ms_max)
        response = await self._ask(node_id, request, "quorum-fetch", timeout_ms)
        try:
            answered, records = fetch_answered(response)
        except ParseError as error:
            raise PeerUnreachableError(node_id, str(error)) from error
        if not isinstance(answered, FetchRefused) and answered.asked != asked.end:
            raise PeerUnreachableError(node_id, "it has answered another question")
        return answered, records

    async def fetch_snapshot(self, node_id: int, snapshot: LogEnd, timeout_ms: int) -> bytes:
        """The content of a snapshot file; the timeout is that of each of its pieces.

        Raises: PeerUnreachableError, also where the snapshot is not there any more.
        """
        receiver = self._receiver(node_id)
        content = bytearray()
        while True:
            request = MetadataSnapshotRequest(
                cluster_id=receiver.cluster_id or None,
                receiver_id=node_id,
                last_epoch=snapshot.last_epoch,
                end_offset=snapshot.end_offset,
                position=len(content),
                max_bytes=SNAPSHOT_PIECE_BYTES,
                history_id=receiver.history_id,
            )
            response = await self._ask(node_id, request, "quorum-snapshot", timeout_ms)
            piece = response.content
            end = len(content) + len(piece)
            is_wrong = response.position != len(content) or not end <= response.size
            if is_wrong or response.size > SNAPSHOT_BYTES_MAX:
                raise PeerUnreachableError(node_id, "its piece of a snapshot does not fit")
            content += piece
            if end == response.size:
                return bytes(content)
            if not piece:
                raise PeerUnreachableError(node_id, "its piece of a snapshot is empty")

    def _receiver(self, node_id: int) -> Receiver:
        return Receiver(
            cluster_id=self._cluster_id(), node_id=node_id, history_id=self._history_id()
        )

    async def _ask(self, node_id: int, request: Any, channel: str, timeout_ms: int) -> Any:
        response = await self._peers.request(
            node_id, request, _VERSION, channel=channel, timeout_ms=timeout_ms
        )
        if response.error_code:
            raise PeerUnreachableError(node_id, f"it answers error {response.error_code}")
        return response

"""Carries the quorum's requests to other nodes, over connections between brokers.

Promises, fetches and snapshots have a connection each: a fetch is held back at the leader until
there is something new, and a snapshot is large. A response to another request than the one sent
counts as none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from barnabas_broker.env.disk import Buffer
from barnabas_broker.metadata.log_ends import LogEnd
from barnabas_broker.metadata.quorum.message_codec import (
    Receiver,
    decode_fetch_response,
    decode_promise_response,
    encode_fetch_request,
    encode_promise_request,
)
from barnabas_broker.metadata.quorum.messages import (
    FetchRefused,
    PromiseRequest,
    PromiseResponse,
    QuorumFetchRequest,
    QuorumFetchResponse,
)
from barnabas_broker.metadata.quorum.transport import FETCH_WAIT_MS_MAX
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

    async def request_promise(
        self, node_id: int, request: PromiseRequest, timeout_ms: int
    ) -> PromiseResponse:
        """The response to a request for a promise.

        Raises: PeerUnreachableError.
        """
        message = encode_promise_request(request, self._receiver(node_id))
        response = decode_promise_response(await self._ask(node_id, message, "quorum", timeout_ms))
        if response.controller_epoch != request.controller_epoch:
            raise PeerUnreachableError(node_id, "it has answered another request")
        return response

    async def fetch_records(
        self, node_id: int, request: QuorumFetchRequest, timeout_ms: int
    ) -> tuple[QuorumFetchResponse | FetchRefused, Buffer]:
        """The response to a fetch, with the record batches that come with `RecordsResponse`.

        Raises: PeerUnreachableError.
        """
        wait_ms_max = min(FETCH_WAIT_MS_MAX, timeout_ms // 2)
        message = encode_fetch_request(request, self._receiver(node_id), wait_ms_max)
        message = await self._ask(node_id, message, "quorum-fetch", timeout_ms)
        try:
            response, records = decode_fetch_response(message)
        except ParseError as error:
            raise PeerUnreachableError(node_id, str(error)) from error
        if not isinstance(response, FetchRefused) and response.requested != request.end:
            raise PeerUnreachableError(node_id, "it has answered another request")
        return response, records

    async def fetch_snapshot(self, node_id: int, snapshot: LogEnd, timeout_ms: int) -> bytes:
        """The content of a snapshot file; the timeout is that of each of its pieces.

        Raises: PeerUnreachableError, also where the snapshot is not there any more.
        """
        receiver = self._receiver(node_id)
        content = bytearray()
        while True:
            message = MetadataSnapshotRequest(
                cluster_id=receiver.cluster_id or None,
                receiver_id=node_id,
                last_epoch=snapshot.last_epoch,
                end_offset=snapshot.end_offset,
                position=len(content),
                max_bytes=SNAPSHOT_PIECE_BYTES,
                history_id=receiver.history_id,
            )
            message = await self._ask(node_id, message, "quorum-snapshot", timeout_ms)
            piece = message.content
            end = len(content) + len(piece)
            is_wrong = message.position != len(content) or not end <= message.size
            if is_wrong or message.size > SNAPSHOT_BYTES_MAX:
                raise PeerUnreachableError(node_id, "its piece of a snapshot does not fit")
            content += piece
            if end == message.size:
                return bytes(content)
            if not piece:
                raise PeerUnreachableError(node_id, "its piece of a snapshot is empty")

    def _receiver(self, node_id: int) -> Receiver:
        return Receiver(
            cluster_id=self._cluster_id(), node_id=node_id, history_id=self._history_id()
        )

    async def _ask(self, node_id: int, request: Any, channel: str, timeout_ms: int) -> Any:
        message = await self._peers.request(
            node_id, request, _VERSION, channel=channel, timeout_ms=timeout_ms
        )
        if message.error_code:
            raise PeerUnreachableError(node_id, f"it answers error {message.error_code}")
        return message

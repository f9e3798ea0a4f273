"""The quorum's requests and responses as messages of the three private APIs, and back.

Pure. `peer_transport` encodes requests with it, the handlers responses. What comes from outside is
checked only for its form here: an outcome that does not exist is a ParseError.

Every request says which cluster and which node it is meant for, because addresses are used again:
an epoch that came from a foreign cluster would be obeyed like our own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from barnabas_broker.env.disk import Buffer
from barnabas_broker.metadata.log_ends import LogEnd
from barnabas_broker.metadata.quorum.description import QuorumDescription
from barnabas_broker.metadata.quorum.messages import (
    DivergenceResponse,
    FetchRefused,
    PromiseRequest,
    PromiseResponse,
    QuorumFetchRequest,
    QuorumFetchResponse,
    RecordsResponse,
    SnapshotResponse,
)
from barnabas_broker.metadata.quorum.voters import Voter
from barnabas_protocol.errors import ErrorCode, KafkaError, ParseError
from barnabas_protocol.ids import ZERO_UUID
from barnabas_protocol.messages import metadata_fetch
from barnabas_protocol.messages.log_ends import LogEndsRequest
from barnabas_protocol.messages.metadata_fetch import MetadataFetchRequest, MetadataFetchResponse
from barnabas_protocol.messages.metadata_promise import (
    MetadataPromiseRequest,
    MetadataPromiseResponse,
)
from barnabas_protocol.messages.metadata_snapshot import MetadataSnapshotRequest


class QuorumRequestHandler(Protocol):
    """Who handles requests of other nodes: `metadata_quorum`."""

    @property
    def history(self) -> bytes:
        """The history that the node's copy is of; zero: blank."""
        ...

    async def on_promise_request(self, request: PromiseRequest) -> PromiseResponse:
        """The response to a request for a promise."""
        ...

    async def on_fetch_request(
        self, request: QuorumFetchRequest, wait_ms_max: int
    ) -> tuple[QuorumFetchResponse | FetchRefused, Buffer]:
        """The response to a fetch, held back until there is something new; and record batches."""
        ...

    async def snapshot_bytes(self, snapshot: LogEnd) -> bytes | None:
        """The content of a snapshot file; None if there is none (any more)."""
        ...

    def describe(self) -> QuorumDescription:
        """Who has the metadata log, and how far each copy is. Raises: NotLeadingError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """Whom a request is meant for; a cluster id that is not known yet is None or empty."""

    cluster_id: str | None
    node_id: int
    history_id: bytes = ZERO_UUID  # zero as long as it is not known


def check_receiver(
    request: MetadataPromiseRequest
    | MetadataFetchRequest
    | MetadataSnapshotRequest
    | LogEndsRequest,
    me: Receiver,
) -> None:
    """Let pass what is meant for this node of this cluster.

    Every node has a cluster id before it asks or is asked: one that joins takes it from the
    arbiter's record, which also says whom to ask. So a request without one is nobody's.
    Raises: KafkaError INCONSISTENT_CLUSTER_ID, INVALID_REQUEST.
    """
    if not request.cluster_id or request.cluster_id != me.cluster_id:
        raise KafkaError(ErrorCode.INCONSISTENT_CLUSTER_ID)
    if ZERO_UUID != request.history_id != me.history_id != ZERO_UUID:
        raise KafkaError(ErrorCode.INCONSISTENT_CLUSTER_ID, "another history of the metadata")
    if request.receiver_id != me.node_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"this is node {me.node_id}")


def encode_promise_request(request: PromiseRequest, receiver: Receiver) -> MetadataPromiseRequest:
    """The message of a request."""
    return MetadataPromiseRequest(
        cluster_id=receiver.cluster_id or None,
        receiver_id=receiver.node_id,
        controller_epoch=request.controller_epoch,
        leader_id=request.leader_id,
        history_id=receiver.history_id,
    )


def decode_promise_request(request: MetadataPromiseRequest) -> PromiseRequest:
    """The request of a message."""
    return PromiseRequest(controller_epoch=request.controller_epoch, leader_id=request.leader_id)


def encode_promise_response(response: PromiseResponse) -> MetadataPromiseResponse:
    """The message of a response."""
    return MetadataPromiseResponse(
        controller_epoch=response.controller_epoch,
        promised_epoch=response.promised_epoch,
        node_id=response.voter.node_id,
        directory_id=response.voter.directory_id,
        last_epoch=response.end.last_epoch,
        end_offset=response.end.end_offset,
    )


def decode_promise_response(message: MetadataPromiseResponse) -> PromiseResponse:
    """The response of a message."""
    return PromiseResponse(
        controller_epoch=message.controller_epoch,
        promised_epoch=message.promised_epoch,
        voter=Voter(message.node_id, message.directory_id),
        end=LogEnd(message.last_epoch, message.end_offset),
    )


def encode_fetch_request(
    request: QuorumFetchRequest, receiver: Receiver, wait_ms_max: int
) -> MetadataFetchRequest:
    """The message of a request."""
    return MetadataFetchRequest(
        cluster_id=receiver.cluster_id or None,
        receiver_id=receiver.node_id,
        controller_epoch=request.controller_epoch,
        node_id=request.voter.node_id,
        directory_id=request.voter.directory_id,
        last_epoch=request.end.last_epoch,
        end_offset=request.end.end_offset,
        max_wait_ms=wait_ms_max,
        history_id=receiver.history_id,
    )


def decode_fetch_request(request: MetadataFetchRequest) -> QuorumFetchRequest:
    """The request of a message."""
    return QuorumFetchRequest(
        controller_epoch=request.controller_epoch,
        voter=Voter(request.node_id, request.directory_id),
        end=LogEnd(request.last_epoch, request.end_offset),
    )


def encode_fetch_response(
    response: QuorumFetchResponse | FetchRefused, records: Buffer
) -> MetadataFetchResponse:
    """The message of a response."""
    message = MetadataFetchResponse(
        controller_epoch=response.controller_epoch,
        node_id=response.source.node_id,
        directory_id=response.source.directory_id,
    )
    if isinstance(response, FetchRefused):
        message.outcome = metadata_fetch.REFUSED
        message.leader_id = -1 if response.leader_id is None else response.leader_id
        return message
    message.asked_last_epoch, message.asked_end_offset = response.requested
    match response:
        case RecordsResponse():
            message.outcome = metadata_fetch.RECORDS
            message.end_offset = response.end_offset
            message.high_watermark = response.high_watermark
            message.records = records
        case DivergenceResponse():
            message.outcome = metadata_fetch.DIVERGENCE
            message.last_epoch, message.end_offset = response.diverging
        case SnapshotResponse():
            message.outcome = metadata_fetch.SNAPSHOT
            message.last_epoch, message.end_offset = response.snapshot
    return message


def decode_fetch_response(
    message: MetadataFetchResponse,
) -> tuple[QuorumFetchResponse | FetchRefused, Buffer]:
    """The response of a message, and the records that came with it.

    Raises: ParseError.
    """
    controller_epoch = message.controller_epoch
    source = Voter(message.node_id, message.directory_id)
    request = LogEnd(message.asked_last_epoch, message.asked_end_offset)
    end = LogEnd(message.last_epoch, message.end_offset)
    response: QuorumFetchResponse | FetchRefused
    match message.outcome:
        case metadata_fetch.REFUSED:
            leader_id = None if message.leader_id < 0 else message.leader_id
            response = FetchRefused(
                controller_epoch=controller_epoch, source=source, leader_id=leader_id
            )
        case metadata_fetch.RECORDS:
            response = RecordsResponse(
                controller_epoch=controller_epoch,
                source=source,
                requested=request,
                end_offset=message.end_offset,
                high_watermark=message.high_watermark,
            )
        case metadata_fetch.DIVERGENCE:
            response = DivergenceResponse(
                controller_epoch=controller_epoch, source=source, requested=request, diverging=end
            )
        case metadata_fetch.SNAPSHOT:
            response = SnapshotResponse(
                controller_epoch=controller_epoch, source=source, requested=request, snapshot=end
            )
        case other:
            raise ParseError(f"a fetch of metadata has no outcome {other}")
    return response, message.records

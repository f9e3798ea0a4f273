"""The quorum's questions and answers as messages of the three private APIs, and back.

Pure. `quorum_transport` asks with it, the handlers answer with it. What comes from outside is
checked only for its form here: an outcome that does not exist is a ParseError.

Every request says which cluster and which node it is meant for, because addresses are used again:
an epoch that came from a foreign cluster would be obeyed like our own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from barnabas_broker.env.disk import Buffer
from barnabas_broker.metadata.log_ends import LogEnd
from barnabas_broker.metadata.quorum import Seat
from barnabas_broker.metadata.quorum_description import QuorumDescription
from barnabas_broker.metadata.quorum_messages import (
    DivergenceAnswered,
    FetchAnswered,
    FetchAsked,
    FetchRefused,
    PromiseAnswered,
    PromiseAsked,
    RecordsAnswered,
    SnapshotAnswered,
)
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


class QuorumAnswers(Protocol):
    """Who answers other nodes: `metadata_quorum`."""

    @property
    def history(self) -> bytes:
        """The history that the node's copy is of; zero: blank."""
        ...

    async def promise_asked(self, asked: PromiseAsked) -> PromiseAnswered:
        """The answer to a request for a promise."""
        ...

    async def fetch_asked(
        self, asked: FetchAsked, wait_ms_max: int
    ) -> tuple[FetchAnswered | FetchRefused, Buffer]:
        """The answer to a fetch, held back as long as there is nothing new; and record batches."""
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


def promise_request(asked: PromiseAsked, receiver: Receiver) -> MetadataPromiseRequest:
    """The message of a question."""
    return MetadataPromiseRequest(
        cluster_id=receiver.cluster_id or None,
        receiver_id=receiver.node_id,
        controller_epoch=asked.controller_epoch,
        leader_id=asked.leader_id,
        history_id=receiver.history_id,
    )


def promise_asked(request: MetadataPromiseRequest) -> PromiseAsked:
    """The question of a message."""
    return PromiseAsked(controller_epoch=request.controller_epoch, leader_id=request.leader_id)


def promise_response(answered: PromiseAnswered) -> MetadataPromiseResponse:
    """The message of an answer."""
    return MetadataPromiseResponse(
        controller_epoch=answered.controller_epoch,
        promised_epoch=answered.promised_epoch,
        node_id=answered.seat.node_id,
        directory_id=answered.seat.directory_id,
        last_epoch=answered.end.last_epoch,
        end_offset=answered.end.end_offset,
    )


def promise_answered(response: MetadataPromiseResponse) -> PromiseAnswered:
    """The answer of a message."""
    return PromiseAnswered(
        controller_epoch=response.controller_epoch,
        promised_epoch=response.promised_epoch,
        seat=Seat(response.node_id, response.directory_id),
        end=LogEnd(response.last_epoch, response.end_offset),
    )


def fetch_request(asked: FetchAsked, receiver: Receiver, wait_ms_max: int) -> MetadataFetchRequest:
    """The message of a question."""
    return MetadataFetchRequest(
        cluster_id=receiver.cluster_id or None,
        receiver_id=receiver.node_id,
        controller_epoch=asked.controller_epoch,
        node_id=asked.seat.node_id,
        directory_id=asked.seat.directory_id,
        last_epoch=asked.end.last_epoch,
        end_offset=asked.end.end_offset,
        max_wait_ms=wait_ms_max,
        history_id=receiver.history_id,
    )


def fetch_asked(request: MetadataFetchRequest) -> FetchAsked:
    """The question of a message."""
    return FetchAsked(
        controller_epoch=request.controller_epoch,
        seat=Seat(request.node_id, request.directory_id),
        end=LogEnd(request.last_epoch, request.end_offset),
    )


def fetch_response(
    answered: FetchAnswered | FetchRefused, records: Buffer
) -> MetadataFetchResponse:
    """The message of an answer."""
    response = MetadataFetchResponse(
        controller_epoch=answered.controller_epoch,
        node_id=answered.source.node_id,
        directory_id=answered.source.directory_id,
    )
    if isinstance(answered, FetchRefused):
        response.outcome = metadata_fetch.REFUSED
        response.leader_id = -1 if answered.leader_id is None else answered.leader_id
        return response
    response.asked_last_epoch, response.asked_end_offset = answered.asked
    match answered:
        case RecordsAnswered():
            response.outcome = metadata_fetch.RECORDS
            response.end_offset = answered.end_offset
            response.high_watermark = answered.high_watermark
            response.records = records
        case DivergenceAnswered():
            response.outcome = metadata_fetch.DIVERGENCE
            response.last_epoch, response.end_offset = answered.diverging
        case SnapshotAnswered():
            response.outcome = metadata_fetch.SNAPSHOT
            response.last_epoch, response.end_offset = answered.snapshot
    return response


def fetch_answered(
    response: MetadataFetchResponse,
) -> tuple[FetchAnswered | FetchRefused, Buffer]:
    """The answer of a message, and the records that came with it.

    Raises: ParseError.
    """
    controller_epoch = response.controller_epoch
    source = Seat(response.node_id, response.directory_id)
    asked = LogEnd(response.asked_last_epoch, response.asked_end_offset)
    end = LogEnd(response.last_epoch, response.end_offset)
    answered: FetchAnswered | FetchRefused
    match response.outcome:
        case metadata_fetch.REFUSED:
            leader_id = None if response.leader_id < 0 else response.leader_id
            answered = FetchRefused(
                controller_epoch=controller_epoch, source=source, leader_id=leader_id
            )
        case metadata_fetch.RECORDS:
            answered = RecordsAnswered(
                controller_epoch=controller_epoch,
                source=source,
                asked=asked,
                end_offset=response.end_offset,
                high_watermark=response.high_watermark,
            )
        case metadata_fetch.DIVERGENCE:
            answered = DivergenceAnswered(
                controller_epoch=controller_epoch, source=source, asked=asked, diverging=end
            )
        case metadata_fetch.SNAPSHOT:
            answered = SnapshotAnswered(
                controller_epoch=controller_epoch, source=source, asked=asked, snapshot=end
            )
        case other:
            raise ParseError(f"a fetch of metadata has no outcome {other}")
    return answered, response.records

"""Lets the quorum's private requests through if they are meant for this node of this cluster."""

from barnabas_broker.handlers.services import Services
from barnabas_broker.metadata.quorum.message_codec import (
    QuorumRequestHandler,
    Receiver,
    check_receiver,
)
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import ZERO_UUID
from barnabas_protocol.messages.log_ends import LogEndsRequest
from barnabas_protocol.messages.metadata_fetch import MetadataFetchRequest
from barnabas_protocol.messages.metadata_promise import MetadataPromiseRequest
from barnabas_protocol.messages.metadata_snapshot import MetadataSnapshotRequest


def checked_quorum(
    services: Services,
    request: MetadataPromiseRequest
    | MetadataFetchRequest
    | MetadataSnapshotRequest
    | LogEndsRequest,
) -> QuorumRequestHandler:
    """The quorum that serves the request.

    Raises: KafkaError INCONSISTENT_CLUSTER_ID, INVALID_REQUEST; BROKER_NOT_AVAILABLE where this
    broker does not follow a metadata log with others.
    """
    logs, quorum = services.logs, services.quorum
    history_id = ZERO_UUID if quorum is None else quorum.history
    me = Receiver(cluster_id=logs.cluster_id, node_id=logs.node_id, history_id=history_id)
    check_receiver(request, me)
    if quorum is None:
        raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE)
    return quorum

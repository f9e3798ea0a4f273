"""MetadataSnapshot (20003, between brokers), version 0: a piece of a snapshot of the metadata log.

Source: `docs/formats/metadata.md` for what a snapshot file is.
"""

from barnabas_broker.handlers.quorum_receiver import checked_quorum
from barnabas_broker.handlers.services import Services
from barnabas_broker.metadata.log_ends import LogEnd
from barnabas_broker.metadata.quorum.peer_transport import SNAPSHOT_PIECE_BYTES
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.metadata_snapshot import (
    MetadataSnapshotRequest,
    MetadataSnapshotResponse,
)


async def handle(
    services: Services, in_flight: InFlightRequest, request: MetadataSnapshotRequest
) -> MetadataSnapshotResponse:
    """Answer with the bytes from a position on.

    Raises: KafkaError SNAPSHOT_NOT_FOUND, POSITION_OUT_OF_RANGE.
    """
    quorum = checked_quorum(services, request)
    content = await quorum.snapshot_bytes(LogEnd(request.last_epoch, request.end_offset))
    if content is None:
        raise KafkaError(ErrorCode.SNAPSHOT_NOT_FOUND)
    start = request.position
    if not 0 <= start <= len(content) or request.max_bytes <= 0:
        raise KafkaError(ErrorCode.POSITION_OUT_OF_RANGE)
    end = start + min(request.max_bytes, SNAPSHOT_PIECE_BYTES)
    return MetadataSnapshotResponse(
        size=len(content), position=start, content=memoryview(content)[start:end]
    )


def failed(request: MetadataSnapshotRequest, error: KafkaError) -> MetadataSnapshotResponse:
    """The error alone."""
    return MetadataSnapshotResponse(error_code=error.code)

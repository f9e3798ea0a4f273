"""MetadataSnapshot (key 20003, Barnabas's own): version 0, always flexible.

A piece of the snapshot of the metadata log that ends at an epoch and an offset.
"""

from barnabas_protocol.schema import Buffer, Message, data, int16, int32, int64, string, uuid


class MetadataSnapshotRequest(Message, versions=(0, 0), flexible=0):
    """Request of MetadataSnapshot."""

    cluster_id: str | None = string(nullable=0, default=None)
    receiver_id: int = int32()
    last_epoch: int = int32(default=-1)
    end_offset: int = int64()
    position: int = int64()
    max_bytes: int = int32()
    history_id: bytes = uuid(tag=0)


class MetadataSnapshotResponse(Message, versions=(0, 0), flexible=0):
    """Response of MetadataSnapshot."""

    error_code: int = int16()
    size: int = int64()
    position: int = int64()
    content: Buffer = data()

"""MetadataFetch (key 20002, Barnabas's own): version 0, always flexible.

A follower or observer of the metadata log asks for records from the end of its log on, and says by
this that all below is on its disk. `outcome` of the response is one of the four constants; which
fields have a meaning depends on it. `asked_...` repeat the request.
"""

from typing import Final

from barnabas_protocol.schema import Buffer, Message, data, int8, int16, int32, int64, string, uuid

REFUSED: Final = 0
"""Not the leader of the epoch: `controller_epoch` and `leader_id` (-1: none) tell what is known."""
RECORDS: Final = 1
"""Batches from the asked offset to `end_offset`, and the leader's high watermark."""
DIVERGENCE: Final = 2
"""The logs part at the end of an epoch: `last_epoch`, `end_offset`."""
SNAPSHOT: Final = 3
"""What is needed is only in a snapshot, which ends at `last_epoch`, `end_offset`."""


class MetadataFetchRequest(Message, versions=(0, 0), flexible=0):
    """Request of MetadataFetch."""

    cluster_id: str | None = string(nullable=0, default=None)
    receiver_id: int = int32()
    controller_epoch: int = int32()
    node_id: int = int32()
    directory_id: bytes = uuid()
    last_epoch: int = int32(default=-1)
    end_offset: int = int64()
    max_wait_ms: int = int32()
    history_id: bytes = uuid(tag=0)


class MetadataFetchResponse(Message, versions=(0, 0), flexible=0):
    """Response of MetadataFetch."""

    error_code: int = int16()
    outcome: int = int8()
    controller_epoch: int = int32()
    node_id: int = int32(default=-1)
    directory_id: bytes = uuid()
    asked_last_epoch: int = int32(default=-1)
    asked_end_offset: int = int64()
    last_epoch: int = int32(default=-1)
    end_offset: int = int64()
    high_watermark: int = int64()
    leader_id: int = int32(default=-1)
    records: Buffer = data()

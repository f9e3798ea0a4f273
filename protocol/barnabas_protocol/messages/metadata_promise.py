"""MetadataPromise (key 20001, Barnabas's own): version 0, always flexible.

The winner of a controller epoch asks a member of the metadata log to obey no lower one, and to tell
where its log ends. `cluster_id` and `receiver_id` say whom the sender believes it speaks to.
"""

from barnabas_protocol.schema import Message, int16, int32, int64, string, uuid


class MetadataPromiseRequest(Message, versions=(0, 0), flexible=0):
    """Request of MetadataPromise."""

    cluster_id: str | None = string(nullable=0, default=None)
    receiver_id: int = int32()
    controller_epoch: int = int32()
    leader_id: int = int32()
    history_id: bytes = uuid(tag=0)


class MetadataPromiseResponse(Message, versions=(0, 0), flexible=0):
    """Response of MetadataPromise."""

    error_code: int = int16()
    controller_epoch: int = int32()
    promised_epoch: int = int32()
    node_id: int = int32(default=-1)
    directory_id: bytes = uuid()
    last_epoch: int = int32(default=-1)
    end_offset: int = int64()

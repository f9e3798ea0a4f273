"""RemoveRaftVoter (key 81): version 0, always flexible."""

from barnabas_protocol.schema import Message, int16, int32, string, uuid


class RemoveRaftVoterRequest(Message, versions=(0, 0), flexible=0):
    """Request of RemoveRaftVoter."""

    cluster_id: str | None = string(nullable=0)
    voter_id: int = int32()
    voter_directory_id: bytes = uuid()


class RemoveRaftVoterResponse(Message, versions=(0, 0), flexible=0):
    """Response of RemoveRaftVoter."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=0)

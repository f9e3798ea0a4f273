"""AddRaftVoter (key 80): versions 0-1, always flexible."""

from barnabas_protocol.schema import Message, array, boolean, int16, int32, string, uint16, uuid


class Listener(Message):
    """One element of `AddRaftVoterRequest.listeners`."""

    name: str = string()
    host: str = string()
    port: int = uint16()


class AddRaftVoterRequest(Message, versions=(0, 1), flexible=0):
    """Request of AddRaftVoter."""

    cluster_id: str | None = string(nullable=0)
    timeout_ms: int = int32()
    voter_id: int = int32()
    voter_directory_id: bytes = uuid()
    listeners: list[Listener] = array(Listener)
    ack_when_committed: bool = boolean(since=1, default=True)


class AddRaftVoterResponse(Message, versions=(0, 1), flexible=0):
    """Response of AddRaftVoter."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=0)

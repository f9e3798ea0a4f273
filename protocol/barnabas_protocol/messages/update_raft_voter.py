"""UpdateRaftVoter (key 82): version 0, always flexible."""

from barnabas_protocol.schema import Message, array, int16, int32, string, struct, uint16, uuid


class Listener(Message):
    """One element of `UpdateRaftVoterRequest.listeners`."""

    name: str = string()
    host: str = string()
    port: int = uint16()


class KRaftVersionFeature(Message):
    """The value of `UpdateRaftVoterRequest.k_raft_version_feature`."""

    min_supported_version: int = int16()
    max_supported_version: int = int16()


class UpdateRaftVoterRequest(Message, versions=(0, 0), flexible=0):
    """Request of UpdateRaftVoter."""

    cluster_id: str | None = string(nullable=0)
    current_leader_epoch: int = int32()
    voter_id: int = int32()
    voter_directory_id: bytes = uuid()
    listeners: list[Listener] = array(Listener)
    k_raft_version_feature: KRaftVersionFeature = struct(KRaftVersionFeature)


class CurrentLeader(Message):
    """The value of `UpdateRaftVoterResponse.current_leader`."""

    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)
    host: str = string()
    port: int = int32()


class UpdateRaftVoterResponse(Message, versions=(0, 0), flexible=0):
    """Response of UpdateRaftVoter."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    current_leader: CurrentLeader = struct(CurrentLeader, tag=0)

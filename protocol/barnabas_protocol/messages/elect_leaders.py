"""ElectLeaders (key 43): versions 0-2, flexible from 2."""

from barnabas_protocol.schema import Message, array, int8, int16, int32, string


class TopicPartitions(Message):
    """One element of `ElectLeadersRequest.topic_partitions`."""

    topic: str = string()
    partitions: list[int] = array(int32)


class ElectLeadersRequest(Message, versions=(0, 2), flexible=2):
    """Request of ElectLeaders."""

    election_type: int = int8(since=1)
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, nullable=0)
    timeout_ms: int = int32(default=60000)


class PartitionResult(Message):
    """One element of `ReplicaElectionResult.partition_result`."""

    partition_id: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=0)


class ReplicaElectionResult(Message):
    """One element of `ElectLeadersResponse.replica_election_results`."""

    topic: str = string()
    partition_result: list[PartitionResult] = array(PartitionResult)


class ElectLeadersResponse(Message, versions=(0, 2), flexible=2):
    """Response of ElectLeaders."""

    throttle_time_ms: int = int32()
    error_code: int = int16(since=1)
    replica_election_results: list[ReplicaElectionResult] = array(ReplicaElectionResult)

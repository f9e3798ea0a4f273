"""LogEnds (key 20004, Barnabas's own): version 0, always flexible.

The active controller asks a broker how far its replicas of some partitions reach, to elect the best
of those that are left. `cluster_id`, `receiver_id` and `history_id` say whom the sender believes it
speaks to.
"""

from barnabas_protocol.schema import Message, array, int16, int32, int64, string, uuid


class LogEndsRequestTopic(Message):
    """One element of `LogEndsRequest.topics`."""

    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class LogEndsRequest(Message, versions=(0, 0), flexible=0):
    """Request of LogEnds."""

    cluster_id: str | None = string(nullable=0, default=None)
    receiver_id: int = int32()
    topics: list[LogEndsRequestTopic] = array(LogEndsRequestTopic)
    history_id: bytes = uuid(tag=0)


class LogEndsResponsePartition(Message):
    """One element of `LogEndsResponseTopic.partitions`; what has no log here is left out."""

    partition_index: int = int32()
    last_epoch: int = int32(default=-1)
    end_offset: int = int64()


class LogEndsResponseTopic(Message):
    """One element of `LogEndsResponse.topics`."""

    topic_id: bytes = uuid()
    partitions: list[LogEndsResponsePartition] = array(LogEndsResponsePartition)


class LogEndsResponse(Message, versions=(0, 0), flexible=0):
    """Response of LogEnds; under which broker epoch the logs were looked at."""

    error_code: int = int16()
    broker_epoch: int = int64(default=-1)
    topics: list[LogEndsResponseTopic] = array(LogEndsResponseTopic)

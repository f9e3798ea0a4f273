"""AlterReplicaLogDirs (key 34): versions 1-2, flexible from 2."""

from barnabas_protocol.schema import Message, array, int16, int32, string


class AlterReplicaLogDirTopic(Message):
    """One element of `AlterReplicaLogDir.topics`."""

    name: str = string()
    partitions: list[int] = array(int32)


class AlterReplicaLogDir(Message):
    """One element of `AlterReplicaLogDirsRequest.dirs`."""

    path: str = string()
    topics: list[AlterReplicaLogDirTopic] = array(AlterReplicaLogDirTopic)


class AlterReplicaLogDirsRequest(Message, versions=(1, 2), flexible=2):
    """Request of AlterReplicaLogDirs."""

    dirs: list[AlterReplicaLogDir] = array(AlterReplicaLogDir)


class AlterReplicaLogDirPartitionResult(Message):
    """One element of `AlterReplicaLogDirTopicResult.partitions`."""

    partition_index: int = int32()
    error_code: int = int16()


class AlterReplicaLogDirTopicResult(Message):
    """One element of `AlterReplicaLogDirsResponse.results`."""

    topic_name: str = string()
    partitions: list[AlterReplicaLogDirPartitionResult] = array(AlterReplicaLogDirPartitionResult)


class AlterReplicaLogDirsResponse(Message, versions=(1, 2), flexible=2):
    """Response of AlterReplicaLogDirs."""

    throttle_time_ms: int = int32()
    results: list[AlterReplicaLogDirTopicResult] = array(AlterReplicaLogDirTopicResult)

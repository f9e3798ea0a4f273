"""AssignReplicasToDirs (key 73): version 0, always flexible."""

from barnabas_protocol.schema import Message, array, int16, int32, int64, uuid


class AssignReplicasToDirsRequestPartitionData(Message):
    """One element of `AssignReplicasToDirsRequestTopicData.partitions`."""

    partition_index: int = int32()


class AssignReplicasToDirsRequestTopicData(Message):
    """One element of `AssignReplicasToDirsRequestDirectoryData.topics`."""

    topic_id: bytes = uuid()
    partitions: list[AssignReplicasToDirsRequestPartitionData] = array(
        AssignReplicasToDirsRequestPartitionData
    )


class AssignReplicasToDirsRequestDirectoryData(Message):
    """One element of `AssignReplicasToDirsRequest.directories`."""

    id: bytes = uuid()
    topics: list[AssignReplicasToDirsRequestTopicData] = array(AssignReplicasToDirsRequestTopicData)


class AssignReplicasToDirsRequest(Message, versions=(0, 0), flexible=0):
    """Request of AssignReplicasToDirs."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    directories: list[AssignReplicasToDirsRequestDirectoryData] = array(
        AssignReplicasToDirsRequestDirectoryData
    )


class AssignReplicasToDirsResponsePartitionData(Message):
    """One element of `AssignReplicasToDirsResponseTopicData.partitions`."""

    partition_index: int = int32()
    error_code: int = int16()


class AssignReplicasToDirsResponseTopicData(Message):
    """One element of `AssignReplicasToDirsResponseDirectoryData.topics`."""

    topic_id: bytes = uuid()
    partitions: list[AssignReplicasToDirsResponsePartitionData] = array(
        AssignReplicasToDirsResponsePartitionData
    )


class AssignReplicasToDirsResponseDirectoryData(Message):
    """One element of `AssignReplicasToDirsResponse.directories`."""

    id: bytes = uuid()
    topics: list[AssignReplicasToDirsResponseTopicData] = array(
        AssignReplicasToDirsResponseTopicData
    )


class AssignReplicasToDirsResponse(Message, versions=(0, 0), flexible=0):
    """Response of AssignReplicasToDirs."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    directories: list[AssignReplicasToDirsResponseDirectoryData] = array(
        AssignReplicasToDirsResponseDirectoryData
    )

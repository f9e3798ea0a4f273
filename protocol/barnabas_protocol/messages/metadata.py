"""Metadata (key 3): versions 0-13, flexible from 9."""

from barnabas_protocol.schema import Message, array, boolean, int16, int32, string, uuid


class MetadataRequestTopic(Message):
    """One element of `MetadataRequest.topics`."""

    topic_id: bytes = uuid(since=10)
    name: str | None = string(nullable=10)


class MetadataRequest(Message, versions=(0, 13), flexible=9):
    """Request of Metadata."""

    topics: list[MetadataRequestTopic] | None = array(MetadataRequestTopic, nullable=1)
    allow_auto_topic_creation: bool = boolean(since=4, default=True)
    include_cluster_authorized_operations: bool = boolean(since=8, until=10)
    include_topic_authorized_operations: bool = boolean(since=8)


class MetadataResponseBroker(Message):
    """One element of `MetadataResponse.brokers`."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(since=1, nullable=0, default=None)


class MetadataResponsePartition(Message):
    """One element of `MetadataResponseTopic.partitions`."""

    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(since=7, default=-1)
    replica_nodes: list[int] = array(int32)
    isr_nodes: list[int] = array(int32)
    offline_replicas: list[int] = array(int32, since=5)


class MetadataResponseTopic(Message):
    """One element of `MetadataResponse.topics`."""

    error_code: int = int16()
    name: str | None = string(nullable=12)
    topic_id: bytes = uuid(since=10)
    is_internal: bool = boolean(since=1)
    partitions: list[MetadataResponsePartition] = array(MetadataResponsePartition)
    topic_authorized_operations: int = int32(since=8, default=-(1 << 31))


class MetadataResponse(Message, versions=(0, 13), flexible=9):
    """Response of Metadata."""

    throttle_time_ms: int = int32(since=3)
    brokers: list[MetadataResponseBroker] = array(MetadataResponseBroker)
    cluster_id: str | None = string(since=2, nullable=0, default=None)
    controller_id: int = int32(since=1, default=-1)
    topics: list[MetadataResponseTopic] = array(MetadataResponseTopic)
    cluster_authorized_operations: int = int32(since=8, until=10, default=-(1 << 31))
    error_code: int = int16(since=13)

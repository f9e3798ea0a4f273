"""DescribeCluster (key 60): versions 0-2, always flexible."""

from barnabas_protocol.schema import Message, array, boolean, int8, int16, int32, string


class DescribeClusterRequest(Message, versions=(0, 2), flexible=0):
    """Request of DescribeCluster."""

    include_cluster_authorized_operations: bool = boolean()
    endpoint_type: int = int8(since=1, default=1)
    include_fenced_brokers: bool = boolean(since=2)


class DescribeClusterBroker(Message):
    """One element of `DescribeClusterResponse.brokers`."""

    broker_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable=0, default=None)
    is_fenced: bool = boolean(since=2)


class DescribeClusterResponse(Message, versions=(0, 2), flexible=0):
    """Response of DescribeCluster."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=0, default=None)
    endpoint_type: int = int8(since=1, default=1)
    cluster_id: str = string()
    controller_id: int = int32(default=-1)
    brokers: list[DescribeClusterBroker] = array(DescribeClusterBroker)
    cluster_authorized_operations: int = int32(default=-(1 << 31))

"""BrokerRegistration (key 62): versions 0-4, always flexible."""

from barnabas_protocol.schema import (
    Message,
    array,
    boolean,
    int16,
    int32,
    int64,
    string,
    uint16,
    uuid,
)


class Listener(Message):
    """One element of `BrokerRegistrationRequest.listeners`."""

    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


class Feature(Message):
    """One element of `BrokerRegistrationRequest.features`."""

    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


class BrokerRegistrationRequest(Message, versions=(0, 4), flexible=0):
    """Request of BrokerRegistration."""

    broker_id: int = int32()
    cluster_id: str = string()
    incarnation_id: bytes = uuid()
    listeners: list[Listener] = array(Listener)
    features: list[Feature] = array(Feature)
    rack: str | None = string(nullable=0)
    is_migrating_zk_broker: bool = boolean(since=1)
    log_dirs: list[bytes] = array(uuid, since=2)
    previous_broker_epoch: int = int64(since=3, default=-1)


class BrokerRegistrationResponse(Message, versions=(0, 4), flexible=0):
    """Response of BrokerRegistration."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    broker_epoch: int = int64(default=-1)

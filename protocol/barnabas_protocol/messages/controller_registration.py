"""ControllerRegistration (key 70): version 0, always flexible."""

from barnabas_protocol.schema import Message, array, boolean, int16, int32, string, uint16, uuid


class Listener(Message):
    """One element of `ControllerRegistrationRequest.listeners`."""

    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


class Feature(Message):
    """One element of `ControllerRegistrationRequest.features`."""

    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


class ControllerRegistrationRequest(Message, versions=(0, 0), flexible=0):
    """Request of ControllerRegistration."""

    controller_id: int = int32()
    incarnation_id: bytes = uuid()
    zk_migration_ready: bool = boolean()
    listeners: list[Listener] = array(Listener)
    features: list[Feature] = array(Feature)


class ControllerRegistrationResponse(Message, versions=(0, 0), flexible=0):
    """Response of ControllerRegistration."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=0)

"""ListConfigResources (key 74): versions 0-1, always flexible."""

from barnabas_protocol.schema import Message, array, int8, int16, int32, string


class ListConfigResourcesRequest(Message, versions=(0, 1), flexible=0):
    """Request of ListConfigResources."""

    resource_types: list[int] = array(int8, since=1)


class ConfigResource(Message):
    """One element of `ListConfigResourcesResponse.config_resources`."""

    resource_name: str = string()
    resource_type: int = int8(since=1, default=16)


class ListConfigResourcesResponse(Message, versions=(0, 1), flexible=0):
    """Response of ListConfigResources."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    config_resources: list[ConfigResource] = array(ConfigResource)

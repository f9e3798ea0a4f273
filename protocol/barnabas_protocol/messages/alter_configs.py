"""AlterConfigs (key 33): versions 0-2, flexible from 2."""

from barnabas_protocol.schema import Message, array, boolean, int8, int16, int32, string


class AlterableConfig(Message):
    """One element of `AlterConfigsResource.configs`."""

    name: str = string()
    value: str | None = string(nullable=0)


class AlterConfigsResource(Message):
    """One element of `AlterConfigsRequest.resources`."""

    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


class AlterConfigsRequest(Message, versions=(0, 2), flexible=2):
    """Request of AlterConfigs."""

    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


class AlterConfigsResourceResponse(Message):
    """One element of `AlterConfigsResponse.responses`."""

    error_code: int = int16()
    error_message: str | None = string(nullable=0)
    resource_type: int = int8()
    resource_name: str = string()


class AlterConfigsResponse(Message, versions=(0, 2), flexible=2):
    """Response of AlterConfigs."""

    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)

"""DescribeConfigs (key 32): versions 1-4, flexible from 4."""

from barnabas_protocol.schema import Message, array, boolean, int8, int16, int32, string


class DescribeConfigsResource(Message):
    """One element of `DescribeConfigsRequest.resources`."""

    resource_type: int = int8()
    resource_name: str = string()
    configuration_keys: list[str] | None = array(string, nullable=0)


class DescribeConfigsRequest(Message, versions=(1, 4), flexible=4):
    """Request of DescribeConfigs."""

    resources: list[DescribeConfigsResource] = array(DescribeConfigsResource)
    include_synonyms: bool = boolean()
    include_documentation: bool = boolean(since=3)


class DescribeConfigsSynonym(Message):
    """One element of `DescribeConfigsResourceResult.synonyms`."""

    name: str = string()
    value: str | None = string(nullable=0)
    source: int = int8()


class DescribeConfigsResourceResult(Message):
    """One element of `DescribeConfigsResult.configs`."""

    name: str = string()
    value: str | None = string(nullable=0)
    read_only: bool = boolean()
    config_source: int = int8(default=-1)
    is_sensitive: bool = boolean()
    synonyms: list[DescribeConfigsSynonym] = array(DescribeConfigsSynonym)
    config_type: int = int8(since=3)
    documentation: str | None = string(since=3, nullable=0)


class DescribeConfigsResult(Message):
    """One element of `DescribeConfigsResponse.results`."""

    error_code: int = int16()
    error_message: str | None = string(nullable=0)
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[DescribeConfigsResourceResult] = array(DescribeConfigsResourceResult)


class DescribeConfigsResponse(Message, versions=(1, 4), flexible=4):
    """Response of DescribeConfigs."""

    throttle_time_ms: int = int32()
    results: list[DescribeConfigsResult] = array(DescribeConfigsResult)

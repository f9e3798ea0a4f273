"""ApiVersions (key 18): versions 0-5, flexible from 3."""

from barnabas_protocol.schema import Message, array, boolean, int16, int32, int64, string


class ApiVersionsRequest(Message, versions=(0, 5), flexible=3):
    """Request of ApiVersions."""

    client_software_name: str = string(since=3)
    client_software_version: str = string(since=3)
    cluster_id: str | None = string(since=5, nullable=0, default=None)
    node_id: int = int32(since=5, default=-1)


class ApiVersion(Message):
    """One element of `ApiVersionsResponse.api_keys`."""

    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


class SupportedFeatureKey(Message):
    """One element of `ApiVersionsResponse.supported_features`."""

    name: str = string()
    min_version: int = int16()
    max_version: int = int16()


class FinalizedFeatureKey(Message):
    """One element of `ApiVersionsResponse.finalized_features`."""

    name: str = string()
    max_version_level: int = int16()
    min_version_level: int = int16()


class ApiVersionsResponse(Message, versions=(0, 5), flexible=3):
    """Response of ApiVersions."""

    error_code: int = int16()
    api_keys: list[ApiVersion] = array(ApiVersion)
    throttle_time_ms: int = int32(since=1)
    supported_features: list[SupportedFeatureKey] = array(SupportedFeatureKey, since=3, tag=0)
    finalized_features_epoch: int = int64(since=3, tag=1, default=-1)
    finalized_features: list[FinalizedFeatureKey] = array(FinalizedFeatureKey, since=3, tag=2)
    zk_migration_ready: bool = boolean(since=3, tag=3)

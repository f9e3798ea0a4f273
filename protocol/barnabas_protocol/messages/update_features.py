"""UpdateFeatures (key 57): versions 0-2, always flexible."""

from barnabas_protocol.schema import Message, array, boolean, int8, int16, int32, string


class FeatureUpdateKey(Message):
    """One element of `UpdateFeaturesRequest.feature_updates`."""

    feature: str = string()
    max_version_level: int = int16()
    allow_downgrade: bool = boolean(until=0)
    upgrade_type: int = int8(since=1, default=1)


class UpdateFeaturesRequest(Message, versions=(0, 2), flexible=0):
    """Request of UpdateFeatures."""

    timeout_ms: int = int32(default=60000)
    feature_updates: list[FeatureUpdateKey] = array(FeatureUpdateKey)
    validate_only: bool = boolean(since=1)


class UpdatableFeatureResult(Message):
    """One element of `UpdateFeaturesResponse.results`."""

    feature: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable=0)


class UpdateFeaturesResponse(Message, versions=(0, 2), flexible=0):
    """Response of UpdateFeatures."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=0)
    results: list[UpdatableFeatureResult] = array(UpdatableFeatureResult, until=1)

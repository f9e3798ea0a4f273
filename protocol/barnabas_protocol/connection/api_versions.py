"""Which versions of the APIs both sides of a connection know, from the response to ApiVersions.

Pure. Source: KIP-35 (negotiation), KIP-511 (a version of ApiVersions that the server lacks),
KIP-584 (features).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from barnabas_protocol import codec
from barnabas_protocol.api import KNOWN, ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from barnabas_protocol.primitives import Buffer

UNSTABLE: Final = {ApiKey.INIT_PRODUCER_ID: 5}
"""Versions above these are in the schemas, but Kafka itself does not offer them."""
_CORRELATION_ID_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class NodeApiVersions:
    """The version ranges of one broker and the features that its cluster has finalized."""

    ranges: Mapping[int, tuple[int, int]] = field(default_factory=lambda: MappingProxyType({}))
    features: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def from_response(cls, response: ApiVersionsResponse) -> NodeApiVersions:
        """Read a response; features count only with an epoch, as in Java."""
        ranges = {row.api_key: (row.min_version, row.max_version) for row in response.api_keys}
        features = {}
        if response.finalized_features_epoch >= 0:
            features = {row.name: row.max_version_level for row in response.finalized_features}
        return cls(MappingProxyType(ranges), MappingProxyType(features))

    def newest(self, api: ApiKey, *, maximum: int | None = None, minimum: int = 0) -> int | None:
        """The newest version that both sides know within the bounds; None if there is none."""
        served = self.ranges.get(api)
        if served is None:
            return None
        low, high = KNOWN[api]
        low = max(low, served[0], minimum)
        high = min(high, served[1], UNSTABLE.get(api, high))
        if maximum is not None:
            high = min(high, maximum)
        return high if low <= high else None


def unsupported_version_response(minimum: int, maximum: int) -> ApiVersionsResponse:
    """What a server responds to an unknown version of ApiVersions, in version 0.

    It names the server's range of ApiVersions alone, which every client can read.
    """
    row = ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=minimum, max_version=maximum)
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[row])


def decode_response(frame: Buffer, version: int) -> Any:
    """Read a response to ApiVersions; a refusal of the version comes in version 0.

    Raises: ParseError if the bytes are malformed.
    """
    start = _CORRELATION_ID_BYTES
    if version > 0 and len(frame) >= start + 2:
        code = int.from_bytes(frame[start : start + 2], "big", signed=True)
        if code == ErrorCode.UNSUPPORTED_VERSION:
            response, _ = codec.decode(ApiVersionsResponse, frame, 0, start)
            return response
    return codec.decode_response(frame, ApiKey.API_VERSIONS, version)[1]

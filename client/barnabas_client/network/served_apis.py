"""What one broker serves, from its ApiVersions answer, and which version both sides know.

Pure. Source: KIP-35 (negotiation), KIP-584 (features).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from barnabas_protocol.api import KNOWN, ApiKey
from barnabas_protocol.messages.api_versions import ApiVersionsResponse
from barnabas_protocol.schema import Message

UNSTABLE: Final = {ApiKey.INIT_PRODUCER_ID: 5}
"""Versions above these are in the schemas, but Kafka itself does not offer them."""


@dataclass(frozen=True, slots=True)
class ServedApis:
    """The version ranges of one broker and the features that its cluster has finalized."""

    ranges: Mapping[int, tuple[int, int]] = field(default_factory=lambda: MappingProxyType({}))
    features: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def from_answer(cls, answer: ApiVersionsResponse) -> ServedApis:
        """Read an answer; features count only with an epoch, as in Java."""
        ranges = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}
        features = {}
        if answer.finalized_features_epoch >= 0:
            features = {row.name: row.max_version_level for row in answer.finalized_features}
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


_keys_by_class: dict[type[Message], ApiKey] = {}


def api_of(request: Message) -> ApiKey:
    """The API of a request object, which its class' module is named after."""
    kind = type(request)
    api = _keys_by_class.get(kind)
    if api is None:
        api = _keys_by_class[kind] = ApiKey[kind.__module__.rpartition(".")[2].upper()]
    return api


CLIENT_THROTTLES_FROM: Final[dict[int, int]] = {
    ApiKey.PRODUCE: 6,
    ApiKey.FETCH: 8,
    ApiKey.LIST_OFFSETS: 3,
    ApiKey.METADATA: 6,
    ApiKey.OFFSET_COMMIT: 4,
    ApiKey.OFFSET_FETCH: 4,
    ApiKey.FIND_COORDINATOR: 2,
    ApiKey.JOIN_GROUP: 3,
    ApiKey.HEARTBEAT: 2,
    ApiKey.LEAVE_GROUP: 2,
    ApiKey.SYNC_GROUP: 2,
    ApiKey.DESCRIBE_GROUPS: 2,
    ApiKey.LIST_GROUPS: 2,
    ApiKey.API_VERSIONS: 2,
    ApiKey.CREATE_TOPICS: 3,
    ApiKey.DELETE_TOPICS: 2,
    ApiKey.DELETE_RECORDS: 1,
    ApiKey.INIT_PRODUCER_ID: 1,
    ApiKey.ADD_PARTITIONS_TO_TXN: 1,
    ApiKey.ADD_OFFSETS_TO_TXN: 1,
    ApiKey.END_TXN: 1,
    ApiKey.TXN_OFFSET_COMMIT: 1,
    ApiKey.DESCRIBE_CONFIGS: 2,
    ApiKey.ALTER_CONFIGS: 1,
    ApiKey.DESCRIBE_LOG_DIRS: 1,
    ApiKey.CREATE_PARTITIONS: 1,
    ApiKey.DELETE_GROUPS: 1,
}
"""The first version whose throttle time the client waits out; before, the broker has waited
(KIP-219). Other APIs throttle in all their versions."""

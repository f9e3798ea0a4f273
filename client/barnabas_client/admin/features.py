"""`admin.features`: ApiVersions (18) to read features, UpdateFeatures (57) to change them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas_client.admin.api_errors import ApiError, error_of, errors_of
from barnabas_client.admin.lookup_strategies import (
    AnyBrokerStrategy,
    ControllerStrategy,
    LookupStrategy,
    StaticBrokerStrategy,
)
from barnabas_client.admin.outcome import Outcomes
from barnabas_client.admin.routing import AdminRouting, Call, RequestContext, nameless
from barnabas_client.admin.values.cluster import FeaturesDescription, FeatureUpdate, LevelRange
from barnabas_protocol.api import ApiKey
from barnabas_protocol.messages.api_versions import ApiVersionsRequest
from barnabas_protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

# A broker refuses an ApiVersions request whose software it cannot read.
_SOFTWARE = "barnabas-client"
_SOFTWARE_VERSION = "1"
# The last version that answers a client of another cluster (KIP-1242).
_API_VERSIONS_MAX = 4


class Features:
    """What can be done about features."""

    def __init__(self, routing: AdminRouting) -> None:
        self._routing = routing

    async def describe(
        self, *, node_id: int | None = None, timeout_ms: int | None = None
    ) -> FeaturesDescription:
        """What a broker (any, if none is named) supports, and what the cluster has agreed on.

        Raises: TimedOutError, or what the broker says.
        """
        to: LookupStrategy[None] = AnyBrokerStrategy()
        if node_id is not None:
            named = node_id
            to = StaticBrokerStrategy(lambda _: named)
        call = Call[None, FeaturesDescription](
            action="describe features",
            api=ApiKey.API_VERSIONS,
            to=to,
            build=lambda context: ApiVersionsRequest(
                client_software_name=_SOFTWARE, client_software_version=_SOFTWARE_VERSION
            ),
            read=lambda response, context: {None: error_of(response) or _described(response)},
            name=nameless,
            version_min=3,
            version_max=_API_VERSIONS_MAX,
        )
        return await self._routing.one(call, timeout_ms)

    async def served_apis(self, *, timeout_ms: int | None = None) -> Mapping[str, LevelRange]:
        """The versions of each API that a broker serves, by the names of `ApiKey`.

        Raises: TimedOutError, or what the broker says.
        """
        call = Call[None, Mapping[str, LevelRange]](
            action="list the served APIs",
            api=ApiKey.API_VERSIONS,
            to=AnyBrokerStrategy(),
            build=lambda context: ApiVersionsRequest(
                client_software_name=_SOFTWARE, client_software_version=_SOFTWARE_VERSION
            ),
            read=lambda response, context: {None: error_of(response) or _served(response)},
            name=nameless,
            version_max=_API_VERSIONS_MAX,
        )
        return await self._routing.one(call, timeout_ms)

    async def update(
        self,
        updates: Mapping[str, FeatureUpdate],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[str, None]:
        """Raise or lower the levels of features.

        From Kafka 4.0 on all are updated or none, and then all have the same error.
        """
        call = Call[str, None](
            action="update feature",
            api=ApiKey.UPDATE_FEATURES,
            to=ControllerStrategy(),
            build=lambda context: UpdateFeaturesRequest(
                feature_updates=[_update(context, name, updates[name]) for name in context.keys],
                timeout_ms=context.timeout_ms,
                validate_only=validate_only,
            ),
            read=_updated,
            is_change=not validate_only,
            version_min=1 if validate_only else 0,
        )
        return await self._routing.each(updates, call, timeout_ms)


def _described(response: Any) -> FeaturesDescription:
    epoch = response.finalized_features_epoch
    return FeaturesDescription(
        supported={
            one.name: LevelRange(one.min_version, one.max_version)
            for one in response.supported_features
        },
        finalized={
            one.name: LevelRange(one.min_version_level, one.max_version_level)
            for one in response.finalized_features
        },
        finalized_epoch=None if epoch < 0 else epoch,
    )


def _served(response: Any) -> Mapping[str, LevelRange]:
    known = {int(key): key.name for key in ApiKey}
    return {
        known[row.api_key]: LevelRange(row.min_version, row.max_version)
        for row in response.api_keys
        if row.api_key in known
    }


def _update(context: RequestContext[str], name: str, update: FeatureUpdate) -> FeatureUpdateKey:
    # Version 0 has one flag for both kinds of downgrade.
    return FeatureUpdateKey(
        feature=name,
        max_version_level=update.level,
        allow_downgrade=update.upgrade_type > 1,
        upgrade_type=update.upgrade_type,
    )


def _updated(response: Any, context: RequestContext[str]) -> Mapping[str, ApiError | None]:
    whole = errors_of(context.keys, response)
    if whole:
        return whole
    # From version 2 on there are no single results any more.
    single: dict[str, ApiError | None] = {one.feature: error_of(one) for one in response.results}
    return {name: single.get(name) for name in context.keys}

"""Gets a Metadata response from whichever broker gives one: known ones first, then the bootstrap.

Invariants: a response that came by a rebootstrap is believed in everything, also where its leader
epochs are lower: it may be another life of the cluster. But a client never moves to another
cluster: an address may be given to a stranger's broker while ours restarts, and records would be
acknowledged by a cluster that nobody reads.
Source: KIP-899 (no broker can be reached), KIP-1102 (nor for a while; or a broker demands it).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from barnabas_client.cluster.metadata_cache import MetadataCache
from barnabas_client.env import Environment
from barnabas_client.errors import BrokerUnreachableError, RetriableError, error_for
from barnabas_client.network.network_client import NetworkClient
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.metadata import MetadataRequest, MetadataResponse

_log: Final = logging.getLogger(__name__)


class MetadataSource:
    """One request at a time, see `MetadataRefresher`."""

    def __init__(
        self,
        network: NetworkClient,
        cache: MetadataCache,
        environment: Environment,
        failing_since_ms: Callable[[], int | None],
    ) -> None:
        self._network = network
        self._cache = cache
        self._clock = environment.clock
        self._failing_since_ms = failing_since_ms
        self._settings = network.settings
        self._rebootstrapped_at_ms = 0

    async def fetch(self, request: MetadataRequest) -> MetadataResponse:
        """The response of the first broker that gives one.

        Raises: BrokerUnreachableError naming all that were tried; what is not retriable at once.
        """
        network = self._network
        if self._has_failed_for_long():
            _log.info("no metadata for a while: rebootstrapping from bootstrap_servers")
            self._rebootstrapped_at_ms = self._clock.monotonic_ms()
            network.rebootstrap()
        known = network.candidates()
        if not known:
            return await self._fetch(network.bootstrap_candidates(), request, is_bootstrap=True)
        try:
            return await self._fetch(known, request, is_bootstrap=False)
        except RetriableError as error:
            if self._settings.metadata_recovery_strategy == "none":
                raise
            lost = error
        try:
            return await self._fetch(network.bootstrap_candidates(), request, is_bootstrap=True)
        except BrokerUnreachableError as error:
            raise BrokerUnreachableError(f"{lost.message}; then {error.message}") from error

    def _has_failed_for_long(self) -> bool:
        since_ms = self._failing_since_ms()
        if since_ms is None or self._settings.metadata_recovery_strategy == "none":
            return False
        patience_ms = self._settings.metadata_recovery_rebootstrap_trigger_ms
        since_ms = max(since_ms, self._rebootstrapped_at_ms)
        return self._clock.monotonic_ms() - since_ms >= patience_ms

    async def _fetch(
        self, node_ids: list[int], request: MetadataRequest, *, is_bootstrap: bool
    ) -> MetadataResponse:
        response: MetadataResponse = await self._network.request_from_any(
            node_ids, request, self._refuse_strangers
        )
        if response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
            self._network.rebootstrap()
            raise BrokerUnreachableError("the broker demands a rebootstrap")
        if response.error_code != ErrorCode.NONE:
            raise error_for(response.error_code, "no metadata of the cluster")
        if not response.brokers:
            raise BrokerUnreachableError("the broker knows of no brokers yet")
        if is_bootstrap:
            self._cache.start_again()
        return response

    def _refuse_strangers(self, response: MetadataResponse) -> RetriableError | None:
        """Why a response is not of the cluster that this client has found first."""
        ours = self._cache.cluster.cluster_id
        if ours is None or response.cluster_id in (None, ours):
            return None
        return BrokerUnreachableError(
            f"{self._network.last_tried} belongs to cluster {response.cluster_id} now, this client "
            f"to {ours}: if the cluster was made anew, make a new client"
        )

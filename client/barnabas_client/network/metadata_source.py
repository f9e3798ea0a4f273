"""Gets a Metadata answer from whichever broker gives one: known ones first, then the bootstrap.

Invariants: an answer that came by beginning anew is believed in everything, also where its leader
epochs are lower: it may be another life of the cluster. But a client never moves to another
cluster: an address may be given to a stranger's broker while ours restarts, and records would be
acknowledged by a cluster that nobody reads.
Source: KIP-899 (no broker can be reached), KIP-1102 (nor for a while; or a broker says so).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from barnabas_client.cluster.metadata_cache import MetadataCache
from barnabas_client.env import Environment
from barnabas_client.errors import BrokerUnreachableError, RetriableError, error_for
from barnabas_client.network.brokers import Brokers
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.metadata import MetadataRequest, MetadataResponse

_log: Final = logging.getLogger(__name__)


class MetadataSource:
    """One question at a time, see `MetadataRefresher`."""

    def __init__(
        self,
        brokers: Brokers,
        cache: MetadataCache,
        environment: Environment,
        failing_since_ms: Callable[[], int | None],
    ) -> None:
        self._brokers = brokers
        self._cache = cache
        self._clock = environment.clock
        self._failing_since_ms = failing_since_ms
        self._settings = brokers.settings
        self._begun_anew_at_ms = 0

    async def ask(self, request: MetadataRequest) -> MetadataResponse:
        """The answer of the first broker that gives one.

        Raises: BrokerUnreachableError naming all that were tried; what is not retriable at once.
        """
        brokers = self._brokers
        if self._has_failed_for_long():
            _log.info("no metadata for a while: beginning anew from bootstrap_servers")
            self._begun_anew_at_ms = self._clock.monotonic_ms()
            brokers.begin_anew()
        known = brokers.candidates()
        if not known:
            return await self._ask(brokers.bootstrap_candidates(), request, anew=True)
        try:
            return await self._ask(known, request, anew=False)
        except RetriableError as error:
            if self._settings.metadata_recovery_strategy == "none":
                raise
            lost = error
        try:
            return await self._ask(brokers.bootstrap_candidates(), request, anew=True)
        except BrokerUnreachableError as error:
            raise BrokerUnreachableError(f"{lost.message}; then {error.message}") from error

    def _has_failed_for_long(self) -> bool:
        since_ms = self._failing_since_ms()
        if since_ms is None or self._settings.metadata_recovery_strategy == "none":
            return False
        patience_ms = self._settings.metadata_recovery_rebootstrap_trigger_ms
        since_ms = max(since_ms, self._begun_anew_at_ms)
        return self._clock.monotonic_ms() - since_ms >= patience_ms

    async def _ask(
        self, node_ids: list[int], request: MetadataRequest, *, anew: bool
    ) -> MetadataResponse:
        answer: MetadataResponse = await self._brokers.ask_one_of(
            node_ids, request, self._refuse_strangers
        )
        if answer.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
            self._brokers.begin_anew()
            raise BrokerUnreachableError("the broker tells us to begin anew")
        if answer.error_code != ErrorCode.NONE:
            raise error_for(answer.error_code, "no metadata of the cluster")
        if not answer.brokers:
            raise BrokerUnreachableError("the broker that was asked knows of no brokers yet")
        if anew:
            self._cache.begin_anew()
        return answer

    def _refuse_strangers(self, answer: MetadataResponse) -> RetriableError | None:
        """Why an answer is not of the cluster that this client has found first."""
        ours = self._cache.cluster.cluster_id
        if ours is None or answer.cluster_id in (None, ours):
            return None
        return BrokerUnreachableError(
            f"{self._brokers.asking} belongs to cluster {answer.cluster_id} now, this client to "
            f"{ours}: if the cluster was made anew, make a new client"
        )

"""The quotas of this broker's clients, by kind, and their change while it runs.

While nobody has a quota of a kind, its throttle is None, and a request costs one comparison.

Source: KIP-13, KIP-124, KIP-599, KIP-612, QUO-1, QUO-8.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any

from barnabas_broker.controller.client_quotas import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
)
from barnabas_broker.controller.mutation_quota import MutationQuota
from barnabas_broker.env.clock import Clock
from barnabas_broker.handlers.bandwidth_throttle import BandwidthThrottle
from barnabas_broker.handlers.client_throttle import ClientThrottle
from barnabas_broker.handlers.forwarding import is_by_broker
from barnabas_broker.handlers.mutation_quotas import MutationQuotas
from barnabas_broker.handlers.request_time import RequestTime
from barnabas_broker.metadata.records import QuotaEntity
from barnabas_broker.metrics.sample import Sample
from barnabas_broker.network.connection_rates import ConnectionRates
from barnabas_broker.network.heavy_work import SLICE
from barnabas_broker.network.session import InFlightRequest
from barnabas_broker.quotas.quota_buckets import Entity
from barnabas_broker.security.broker_identity import BrokerIdentity


class ClientQuotas:
    """The throttles of this broker; None for a kind of which nobody has a quota.

    Those of Produce and Fetch are there for quotas of time as well.
    """

    __slots__ = (
        "_connections",
        "_fetch",
        "_kinds",
        "_mutation",
        "_produce",
        "_request",
        "fetch",
        "mutation",
        "on_measured",
        "produce",
        "request",
    )

    def __init__(
        self,
        clock: Clock,
        identity: BrokerIdentity,
        connections: ConnectionRates,
        on_measured: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_measured` is called when the time of requests is measured from now on, or no more."""
        is_of_broker = partial(is_by_broker, identity)
        self._produce = BandwidthThrottle(clock)
        self._fetch = BandwidthThrottle(clock)
        self._request = RequestTime(clock, is_of_broker)
        self._mutation = MutationQuotas(clock, is_of_broker)
        self._connections = connections
        self._kinds: Mapping[str, ClientThrottle[Any]] = {
            PRODUCER_BYTE_RATE: self._produce,
            CONSUMER_BYTE_RATE: self._fetch,
            REQUEST_PERCENTAGE: self._request,
            CONTROLLER_MUTATION_RATE: self._mutation,
        }
        self.on_measured = on_measured
        self.produce: BandwidthThrottle | None = None
        self.fetch: BandwidthThrottle | None = None
        self.request: RequestTime | None = None
        self.mutation: MutationQuotas | None = None

    def update(
        self,
        quotas: Mapping[QuotaEntity, Mapping[str, float]],
        changed: Iterable[QuotaEntity] | None = None,
    ) -> None:
        """Use the quotas of other metadata from now on, for connections that are open as well.

        `changed` are the entities whose quotas may be others; without, all are taken anew.
        """
        if changed is None:
            for kind in self._kinds.values():
                kind.buckets.clear()
            self._connections.buckets.clear()
            changed = quotas
        for entity in changed:
            self._take_over(entity, quotas.get(entity, {}))
        was_measured = self.request is not None
        self.request = request = self._request if self._request.buckets else None
        self.mutation = self._mutation if self._mutation.buckets else None
        self._produce.request_time = self._fetch.request_time = request
        self.produce = self._produce if request or self._produce.buckets else None
        self.fetch = self._fetch if request or self._fetch.buckets else None
        if (self.request is not None) != was_measured:
            self.on_measured()

    async def update_in_turns(
        self,
        quotas: Mapping[QuotaEntity, Mapping[str, float]],
        changed: Iterable[QuotaEntity] | None,
    ) -> None:
        """The same as `update`, a few milliseconds at a time; one call at a time."""
        if changed is None:
            self.update({})
        entities = iter(quotas if changed is None else changed)
        while turn := list(islice(entities, SLICE)):
            self.update(quotas, turn)
            if len(turn) == SLICE:
                await asyncio.sleep(0)

    def _take_over(self, entity: QuotaEntity, limits: Mapping[str, float]) -> None:
        parts = dict(entity)
        if IP in parts:
            key: Entity = (parts[IP] or "",)
            self._connections.buckets.update(key, limits.get(CONNECTION_CREATION_RATE))
            return
        key = tuple((parts[kind] or "") if kind in parts else None for kind in (USER, CLIENT_ID))
        for name, kind in self._kinds.items():
            kind.buckets.update(key, limits.get(name))

    def mutation_quota(self, in_flight: InFlightRequest) -> MutationQuota | None:
        """What a request may make and remove; None without a quota."""
        mutation = self.mutation
        return None if mutation is None else mutation.of_request(in_flight)

    def throttled_by_mutation(self, quota: MutationQuota) -> int:
        """How long the response to a request says that its client waits, counted."""
        return self._mutation.counted(quota.throttle_ms)

    def samples(self) -> Iterator[Sample]:
        """How often and for how long clients were throttled."""
        kinds: Mapping[str, ClientThrottle[Any] | ConnectionRates] = {
            "produce": self._produce,
            "fetch": self._fetch,
            "request": self._request,
            "controller-mutation": self._mutation,
            "connection-creation": self._connections,
        }
        for name, kind in kinds.items():
            labels = {"quota": name}
            yield Sample(
                "barnabas_client_throttles_total",
                "counter",
                "Requests or connections after which a client had to wait for its quota.",
                labels,
                kind.throttled_count,
            )
            yield Sample(
                "barnabas_client_throttle_seconds_total",
                "counter",
                "How long clients had to wait for their quotas.",
                labels,
                kind.throttled_ms / 1000,
            )
            yield Sample(
                "barnabas_client_quota_buckets",
                "gauge",
                "Clients, users and addresses of which something is counted against a quota.",
                labels,
                kind.buckets.bucket_count,
            )
        yield Sample(
            "barnabas_exempt_request_seconds_total",
            "counter",
            "Time of the loop for requests that count against no quota, while there are any.",
            {},
            self._request.exempt_ns / 1e9,
        )

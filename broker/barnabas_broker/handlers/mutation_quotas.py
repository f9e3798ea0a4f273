"""Whose `controller_mutation_rate` a request counts against that makes or removes partitions.

The buckets are those of this broker as the controller; the next one begins with full ones. Requests
of brokers count against nothing, but for what is a client's in an envelope, or is made because a
client has named a topic.

Source: KIP-599, QUO-7.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas_broker.controller.mutation_quota import STRICT_SINCE, MutationQuota
from barnabas_broker.env.clock import Clock
from barnabas_broker.handlers.client_throttle import ClientThrottle
from barnabas_broker.network.session import InFlightRequest
from barnabas_broker.quotas.quota_buckets import client_matches
from barnabas_broker.quotas.token_bucket import TokenBucket


class MutationQuotas(ClientThrottle[TokenBucket]):
    """The quotas of changes to topics, and the tokens of each bucket."""

    __slots__ = ("_is_of_broker",)

    def __init__(self, clock: Clock, is_of_broker: Callable[[InFlightRequest], bool]) -> None:
        super().__init__(clock, TokenBucket)
        self._is_of_broker = is_of_broker

    def of_request(self, in_flight: InFlightRequest) -> MutationQuota | None:
        """The quota of a request, strict in newer versions; None without one."""
        if self._is_of_broker(in_flight):
            return None
        bucket = self.limit_of(in_flight)
        if bucket is None:
            return None
        is_strict = in_flight.api_version >= STRICT_SINCE[in_flight.api_key]
        return MutationQuota(bucket, is_strict=is_strict)

    def of_client(self, user: str, client_id: str) -> MutationQuota | None:
        """The permissive quota of a client for whom this broker makes a topic."""
        bucket = self.buckets.limit_of(client_matches(user, client_id))
        return None if bucket is None else MutationQuota(bucket, is_strict=False)

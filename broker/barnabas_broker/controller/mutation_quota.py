"""How many partitions one request may make and remove, by the quota of who sent it.

Pure but for the bucket's clock. Source: KIP-599, QUO-7. Invariant: what is refused takes no tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from barnabas_broker.quotas.token_bucket import TokenBucket
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode, KafkaError

STRICT_SINCE: Final[Mapping[int, int]] = {
    ApiKey.CREATE_TOPICS: 6,
    ApiKey.CREATE_PARTITIONS: 3,
    ApiKey.DELETE_TOPICS: 5,
}
"""From these versions on, clients know what a refusal by the quota is."""


class MutationQuota:
    """The quota of one request: strict, where what exceeds it is refused, or permissive."""

    __slots__ = ("_bucket", "_has_exceeded", "_is_strict")

    def __init__(self, bucket: TokenBucket, *, is_strict: bool) -> None:
        self._bucket = bucket
        self._is_strict = is_strict
        self._has_exceeded = False

    def take(self, partition_count: int) -> None:
        """Count partitions of a topic that are made or removed; the last may go into debt.

        Raises: KafkaError 89 where the quota is strict and there is a debt.
        """
        if self._is_strict and self._bucket.tokens < 0:
            self._has_exceeded = True
            raise KafkaError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded."
            )
        self._bucket.take(partition_count)
        if not self._is_strict and self._bucket.tokens < 0:
            self._has_exceeded = True

    @property
    def throttle_ms(self) -> int:
        """How long its client is to wait now; 0 where nothing was too much."""
        return self._bucket.throttle_ms if self._has_exceeded else 0

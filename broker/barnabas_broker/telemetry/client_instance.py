"""One instance of a client, as far as its telemetry goes: what it is to push, and when it may.

The state machine of Kafka's `ClientMetricsInstance`, pure: a request is in time when the interval
has passed since the one before; the push that follows a request for subscriptions is in time
whenever it comes; the push with which a client ends is too, and is its last (TEL-3, TEL-4).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from barnabas_broker.config.client_metrics_settings import CLIENT_INSTANCE_ID
from barnabas_protocol.errors import ErrorCode, KafkaError

# After these a client may ask for its subscriptions at once.
_ERRORS_TO_RECOVER_FROM = frozenset(
    (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Requested:
    """What an instance is to push: prefixes of metrics, and how often."""

    metrics: tuple[str, ...]
    push_interval_ms: int


@dataclass(slots=True, kw_only=True)
class ClientInstance:
    """The state of one instance; `attributes` are those that subscriptions may match."""

    id: bytes
    attributes: Mapping[str, str]
    requested: Requested
    subscription_id: int
    subscriptions_version: int
    last_get_ms: int | None = None
    last_push_ms: int | None = None
    is_terminating: bool = False
    last_error: ErrorCode = ErrorCode.NONE
    expires_ms: int = 0

    @property
    def push_interval_ms(self) -> int:
        """How often it is to push."""
        return self.requested.push_interval_ms

    def request(self, requested: Requested, subscription_id: int, version: int) -> None:
        """Have it push something else, of which it may hear at once."""
        self.requested = requested
        self.subscription_id = subscription_id
        self.subscriptions_version = version
        self.last_get_ms = self.last_push_ms = None

    def get(self, now_ms: int) -> None:
        """Take note of a request for subscriptions. Raises: KafkaError 89."""
        times = [time for time in (self.last_get_ms, self.last_push_ms) if time is not None]
        if not times or now_ms - max(times) >= self.push_interval_ms:
            self.last_get_ms = now_ms
        elif self.last_error not in _ERRORS_TO_RECOVER_FROM:
            raise self._too_early()
        self.last_error = ErrorCode.NONE

    def push(self, now_ms: int, subscription_id: int, *, is_terminating: bool) -> None:
        """Take note of a push. Raises: KafkaError 42, 89, 117."""
        if self.is_terminating:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Client [{self.attributes[CLIENT_INSTANCE_ID]}] has sent its terminating push",
            )
        self.is_terminating = is_terminating
        if self._may_push(now_ms):
            self.last_push_ms = now_ms
        elif not is_terminating:
            raise self._too_early()
        if subscription_id != self.subscription_id:
            raise KafkaError(
                ErrorCode.UNKNOWN_SUBSCRIPTION_ID,
                f"Unknown client subscription id [{subscription_id}]",
            )

    def _may_push(self, now_ms: int) -> bool:
        if self.last_push_ms is None or now_ms - self.last_push_ms >= self.push_interval_ms:
            return True
        return self.last_get_ms is not None and self.last_get_ms > self.last_push_ms

    def _too_early(self) -> KafkaError:
        return KafkaError(
            ErrorCode.THROTTLING_QUOTA_EXCEEDED,
            f"Request from the client [{self.attributes[CLIENT_INSTANCE_ID]}] arrived before the "
            "next push interval time",
        )

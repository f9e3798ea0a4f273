"""Client telemetry of one broker: subscriptions, the instances of clients, and what they pushed.

Every broker computes the same subscription id for an instance, so a client may push to another
broker than the one that gave it the id. Instances are kept for three intervals and a minute at
least; one that is forgotten too early, because there are many, may push again a little sooner.

Source: KIP-714; Kafka's `ClientMetricsManager`. Invariant: at most `INSTANCES_MAX` instances.
"""

from __future__ import annotations

import logging
import struct
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, Final

from barnabas_broker.config.client_metrics_settings import (
    ALL_METRICS,
    CLIENT_INSTANCE_ID,
    INTERVAL_MS_DEFAULT,
    Subscription,
    parse_subscription,
)
from barnabas_broker.config.definitions import ConfigError
from barnabas_broker.env.clock import Clock
from barnabas_broker.env.randomness import Random
from barnabas_broker.metrics.sample import Sample
from barnabas_broker.telemetry.client_instance import ClientInstance, Requested
from barnabas_broker.telemetry.push_reader import Push
from barnabas_broker.telemetry.reported_series import ReportedSeries
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import ZERO_UUID, uuid_to_text
from barnabas_protocol.records.checksum import crc32c

logger = logging.getLogger(__name__)

INSTANCES_MAX: Final = 10_000
INSTANCE_LIFETIME_MS_MIN: Final = 60_000
PREFIXES_MAX: Final = 1000
"""A client that is to push more than so many prefixes is to push everything."""
RESERVED_IDS: Final = frozenset((ZERO_UUID, bytes(15) + b"\x01"))

_WORDS: Final = struct.Struct(">4I")


class ClientMetricsManager:
    """Says what clients are to push, and takes what they do."""

    def __init__(self, clock: Clock, random: Random, *, bytes_max: int, series_max: int) -> None:
        self._clock = clock
        self._random = random
        self.bytes_max = bytes_max
        self._subscriptions: tuple[Subscription, ...] = ()
        self._version = 0
        # The one that was used last is at the end.
        self._instances: OrderedDict[bytes, ClientInstance] = OrderedDict()
        self._series = ReportedSeries(series_max)
        self._pushes_count = 0
        self._errors: dict[ErrorCode, int] = {}

    def update(self, subscriptions: Mapping[str, Mapping[str, str]]) -> None:
        """Use these subscriptions, by name, from now on, but what cannot be used (CFG-5)."""
        used = []
        for name, overrides in sorted(subscriptions.items()):
            try:
                used.append(parse_subscription(overrides))
            except ConfigError as error:
                logger.warning("client metrics subscription %s is not used: %s", name, error)
        self._subscriptions = tuple(used)
        self._version += 1

    def get(self, instance_id: bytes, attributes: Mapping[str, str]) -> ClientInstance:
        """The instance that asks what it is to push; a new one has a zero id.

        Raises: KafkaError 89.
        """
        instance = self._instance(instance_id, attributes)
        try:
            instance.get(self._clock.monotonic_ms())
        except KafkaError as error:
            self._count(error)
            raise
        return instance

    def begin_push(
        self,
        instance_id: bytes,
        attributes: Mapping[str, str],
        subscription_id: int,
        *,
        is_terminating: bool,
    ) -> ClientInstance:
        """The instance that pushes, if it may. Raises: KafkaError 42, 89, 117."""
        if instance_id in RESERVED_IDS:
            error = KafkaError(ErrorCode.INVALID_REQUEST, "Invalid client instance id")
            self._count(error)
            raise error
        instance = self._instance(instance_id, attributes)
        try:
            instance.push(
                self._clock.monotonic_ms(), subscription_id, is_terminating=is_terminating
            )
        except KafkaError as error:
            self.fail_push(instance, error)
            raise
        return instance

    def end_push(self, instance: ClientInstance, push: Push, connection: Any) -> None:
        """Show what an instance has pushed by a connection."""
        instance.last_error = ErrorCode.NONE
        self._pushes_count += 1
        self._series.take(instance, push, connection, self._clock.monotonic_ms())

    def fail_push(self, instance: ClientInstance, error: KafkaError) -> None:
        """Take note of why an instance may not push, or what was wrong."""
        instance.last_error = ErrorCode(error.code)
        self._count(error)

    def samples(self) -> Iterator[Sample]:
        """What clients have pushed, and what became of their requests."""
        for name, kind, text, value in (
            ("instances", "gauge", "Instances of clients that ask what to push.", self._kept()),
            ("reporting", "gauge", "Instances whose metrics are shown.", self._series.client_count),
            ("series", "gauge", "Series of clients that are shown.", self._series.series_count),
            ("pushes_total", "counter", "Pushes of metrics that were taken.", self._pushes_count),
            (
                "points_left_out_total",
                "counter",
                "Points of pushes that are not shown: nobody requested them, there is no room for "
                "them, or they are none that can be shown.",
                self._series.left_out_count,
            ),
        ):
            yield Sample(f"barnabas_client_telemetry_{name}", kind, text, {}, value)
        for code, count in self._errors.items():
            yield Sample(
                "barnabas_client_telemetry_errors_total",
                "counter",
                "Requests of client telemetry that were refused.",
                {"error": code.name},
                count,
            )
        yield from self._series.samples(self._clock.monotonic_ms())

    def _kept(self) -> int:
        self._forget_expired(self._clock.monotonic_ms())
        return len(self._instances)

    def _count(self, error: KafkaError) -> None:
        code = ErrorCode(error.code)
        self._errors[code] = self._errors.get(code, 0) + 1

    def _instance(self, instance_id: bytes, attributes: Mapping[str, str]) -> ClientInstance:
        now_ms = self._clock.monotonic_ms()
        self._forget_expired(now_ms)
        instance = self._instances.get(instance_id)
        if instance is None:
            instance = self._add(instance_id, attributes)
        elif instance.subscriptions_version != self._version:
            self._request(instance)
        self._instances.move_to_end(instance.id)
        lifetime_ms = max(INSTANCE_LIFETIME_MS_MIN, 3 * instance.push_interval_ms)
        instance.expires_ms = now_ms + lifetime_ms
        return instance

    def _add(self, instance_id: bytes, attributes: Mapping[str, str]) -> ClientInstance:
        if instance_id == ZERO_UUID:
            instance_id = self._random.uuid()
        if len(self._instances) >= INSTANCES_MAX:
            self._instances.popitem(last=False)
        instance = ClientInstance(
            id=instance_id,
            attributes={**attributes, CLIENT_INSTANCE_ID: uuid_to_text(instance_id)},
            requested=Requested(metrics=(), push_interval_ms=INTERVAL_MS_DEFAULT),
            subscription_id=0,
            subscriptions_version=-1,
        )
        self._request(instance)
        self._instances[instance_id] = instance
        return instance

    def _request(self, instance: ClientInstance) -> None:
        requested = requested_of(self._subscriptions, instance.attributes)
        instance.request(requested, subscription_id_of(requested, instance.id), self._version)

    def _forget_expired(self, now_ms: int) -> None:
        while self._instances:
            oldest = next(iter(self._instances.values()))
            if oldest.expires_ms > now_ms:
                break
            del self._instances[oldest.id]


def requested_of(
    subscriptions: tuple[Subscription, ...], attributes: Mapping[str, str]
) -> Requested:
    """What a client is to push: all that matches it, as often as the most eager wants (TEL-2)."""
    metrics: set[str] = set()
    interval_ms = INTERVAL_MS_DEFAULT
    for subscription in subscriptions:
        if subscription.is_for(attributes):
            interval_ms = min(interval_ms, subscription.interval_ms)
            if len(metrics) <= PREFIXES_MAX:
                metrics |= subscription.metrics
    is_for_all = ALL_METRICS in metrics or len(metrics) > PREFIXES_MAX
    names = (ALL_METRICS,) if is_for_all else tuple(sorted(metrics))
    return Requested(metrics=names, push_interval_ms=interval_ms)


def subscription_id_of(requested: Requested, instance_id: bytes) -> int:
    """The id of what an instance is to push: another whenever that is other (TEL-2)."""
    text = f"{','.join(requested.metrics)};{requested.push_interval_ms}"
    number = crc32c(text.encode())
    for word in _WORDS.unpack(instance_id):
        number ^= word
    return number - 2**32 if number >= 2**31 else number

"""The settings of the producer.

Source: the configuration of Kafka's Java producer; KIP-679 (idempotence by default), KIP-91
(`delivery.timeout.ms`), KIP-480 and KIP-794 (sticky partitioning).
"""

# ruff: noqa: RUF009 - `setting` returns a dataclass field.

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from barnabas_client.config.client_settings import ClientSettings
from barnabas_client.config.serializers import Serializer
from barnabas_client.config.settings import INT_MAX, LONG_MAX, setting
from barnabas_client.errors import ConfigurationError

DELIVERY_TIMEOUT_MS: Final = 120000
IDEMPOTENT_IN_FLIGHT_MAX: Final = 5
"""Brokers remember the last five batches of a producer per partition."""


def _check_acks(acks: Any) -> str | None:
    return None if acks in ("all", -1, 0, 1) else "it must be all (or -1), 1 or 0"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings(ClientSettings):
    """What a producer can be told."""

    role: ClassVar[str] = "producer"

    acks: int | str = setting(
        "all",
        check=_check_acks,
        why="Who must have a record before it counts as sent: all in-sync replicas, the leader "
        "alone (1), nobody (0: nothing is known of what becomes of it).",
    )
    enable_idempotence: bool = setting(
        True,
        why="Nothing is written twice or out of order when a request is repeated; needs acks=all, "
        "retries and at most 5 requests in flight, else it must be switched off.",
    )
    transactional_id: str | None = setting(
        None, why="A name that stays the same over restarts; makes transactions possible."
    )
    transaction_timeout_ms: int = setting(
        60000,
        minimum=1,
        maximum=INT_MAX,
        unit="ms",
        why="An open transaction that is not heard of for so long is aborted by the broker.",
    )
    batch_size: int = setting(
        16384,
        minimum=0,
        maximum=INT_MAX,
        unit="bytes",
        why="A batch of one partition is sent at once when it is this large.",
    )
    linger_ms: int = setting(
        5, minimum=0, maximum=LONG_MAX, unit="ms", why="How long a batch waits for more records."
    )
    buffer_memory: int = setting(
        33554432,
        minimum=1,
        maximum=LONG_MAX,
        unit="bytes",
        why="How much may wait to be sent or for its answer.",
    )
    max_block_ms: int = setting(
        60000,
        minimum=0,
        maximum=LONG_MAX,
        unit="ms",
        why="How long a record may wait for metadata and for room in buffer_memory.",
    )
    max_request_size: int = setting(
        1048576,
        minimum=0,
        maximum=INT_MAX,
        unit="bytes",
        why="The largest request, and so the largest record; brokers have a limit of their own.",
    )
    compression_type: str = setting(
        "none",
        choices=("none", "gzip", "snappy", "lz4", "zstd"),
        why="How batches are compressed.",
    )
    compression_level: int | None = setting(
        None, minimum=-131072, maximum=22, why="How hard; the default is the codec's own."
    )
    max_in_flight_requests_per_connection: int = setting(
        5,
        minimum=1,
        maximum=INT_MAX,
        why="How many requests may wait for their answers on one connection.",
    )
    delivery_timeout_ms: int = setting(
        DELIVERY_TIMEOUT_MS,
        minimum=0,
        maximum=INT_MAX,
        unit="ms",
        why="A batch that is not acknowledged so long after its first record has failed; before, a "
        "record waits for at most max_block_ms.",
    )
    retries: int = setting(
        INT_MAX,
        minimum=0,
        maximum=INT_MAX,
        why="How often a batch is repeated; better left to delivery_timeout_ms.",
    )
    partitioner: Any = setting(
        None, why="Chooses partitions; the default hashes the key as Java does, else fills batches."
    )
    partitioner_ignore_keys: bool = setting(
        False, why="Let the default partitioner treat every record as if it had no key."
    )
    key_serializer: Callable[[Any], Any] | Serializer | None = setting(
        None, why="Turns a key into bytes; the default takes bytes and text."
    )
    value_serializer: Callable[[Any], Any] | Serializer | None = setting(
        None, why="Turns a value into bytes; the default takes bytes and text."
    )
    interceptors: Sequence[Any] = setting(
        (), why="Objects that see every record before it is sent and after it is acknowledged."
    )

    @property
    def required_acks(self) -> int:
        """The number that Produce carries for `acks`."""
        return -1 if self.acks == "all" else int(self.acks)

    def check(self) -> None:
        """Refuse what contradicts idempotence, transactions or the delivery timeout (PRD-9)."""
        ClientSettings.check(self)
        if self.enable_idempotence:
            self._check_idempotence()
        elif self.transactional_id is not None:
            raise ConfigurationError(
                "transactional_id needs enable_idempotence=True: leave it at its default"
            )
        if self.transactional_id == "":
            raise ConfigurationError("transactional_id is empty: leave it out or give it a name")
        least_ms = self.request_timeout_ms + self.linger_ms
        if self.delivery_timeout_ms < least_ms and self.delivery_timeout_ms == DELIVERY_TIMEOUT_MS:
            object.__setattr__(self, "delivery_timeout_ms", least_ms)  # as in Java: not given
        elif self.delivery_timeout_ms < least_ms:
            raise ConfigurationError(
                f"delivery_timeout_ms={self.delivery_timeout_ms} is less than request_timeout_ms + "
                f"linger_ms={least_ms}, so that no request could ever time out: raise it or lower "
                "those"
            )

    def _check_idempotence(self) -> None:
        wrong = None
        if self.required_acks != -1:
            wrong = f"acks={self.acks}, but it must be all"
        elif self.retries == 0:
            wrong = "retries=0, but it must be more"
        elif self.max_in_flight_requests_per_connection > IDEMPOTENT_IN_FLIGHT_MAX:
            wrong = (
                "max_in_flight_requests_per_connection="
                f"{self.max_in_flight_requests_per_connection}, but it must be at most "
                f"{IDEMPOTENT_IN_FLIGHT_MAX}"
            )
        if wrong is not None:
            raise ConfigurationError(
                f"enable_idempotence contradicts {wrong}: change that, or set "
                "enable_idempotence=False"
            )

"""The settings of the share consumer (KIP-932).

Source: the configuration of Kafka's Java share consumer; KIP-1206 (`share.acquire.mode`). What the
group has for all of its members (locks, delivery limits, where it begins) are settings of the
group, on the brokers.
"""

# ruff: noqa: RUF009 - `setting` returns a dataclass field.

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from barnabas_client.config.client_settings import ClientSettings
from barnabas_client.config.serializers import Deserializer
from barnabas_client.config.settings import INT_MAX, setting
from barnabas_client.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareConsumerSettings(ClientSettings):
    """What a share consumer can be told."""

    role: ClassVar[str] = "share-consumer"

    group_id: str = setting(why="The share group, whose members share the records of its topics.")
    share_acknowledgement_mode: str = setting(
        "implicit",
        choices=("implicit", "explicit"),
        why="With `implicit` the next poll accepts the records of the last one; with `explicit` "
        "the program acknowledges each record.",
    )
    share_acquire_mode: str = setting(
        "batch_optimized",
        choices=("batch_optimized", "record_limit"),
        why="`batch_optimized` acquires whole batches; `record_limit` never more records than "
        "max_poll_records.",
    )
    max_poll_records: int = setting(
        500, minimum=1, maximum=INT_MAX, why="The most records that one `poll` returns."
    )
    max_poll_interval_ms: int = setting(
        300000,
        minimum=1,
        maximum=INT_MAX,
        unit="ms",
        why="A member that does not ask for records for so long leaves the group.",
    )
    fetch_min_bytes: int = setting(
        1,
        minimum=0,
        maximum=INT_MAX,
        unit="bytes",
        why="A broker waits for this much before it answers, at most fetch_max_wait_ms.",
    )
    fetch_max_wait_ms: int = setting(
        500, minimum=0, maximum=INT_MAX, unit="ms", why="How long a broker waits for records."
    )
    fetch_max_bytes: int = setting(
        52428800,
        minimum=0,
        maximum=INT_MAX,
        unit="bytes",
        why="The most that one answer carries; a first batch that is larger comes all the same.",
    )
    check_crcs: bool = setting(True, why="Whether the checksum of every batch is verified.")
    key_deserializer: Callable[[bytes], Any] | Deserializer | None = setting(
        None, why="Turns the bytes of a key into an object; the default hands out the bytes."
    )
    value_deserializer: Callable[[bytes], Any] | Deserializer | None = setting(
        None, why="Turns the bytes of a value into an object; the default hands out the bytes."
    )

    @property
    def is_explicit(self) -> bool:
        """Whether the program acknowledges each record itself."""
        return self.share_acknowledgement_mode == "explicit"

    def check(self) -> None:
        """Refuse settings that cannot work together."""
        ClientSettings.check(self)
        if not self.group_id:
            raise ConfigurationError("group_id is empty: give the share group a name")
        if self.fetch_max_wait_ms >= self.request_timeout_ms:
            raise ConfigurationError(
                f"fetch_max_wait_ms={self.fetch_max_wait_ms} must be below request_timeout_ms="
                f"{self.request_timeout_ms}, or every fetch that waits would time out"
            )

"""The settings of the consumer.

Source: the configuration of Kafka's Java consumer; KIP-848 (`group.protocol`), KIP-1106
(`auto.offset.reset` by duration).
"""

# ruff: noqa: RUF009 - `setting` returns a dataclass field.

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from barnabas_client.config.client_settings import ClientSettings
from barnabas_client.config.serializers import Deserializer
from barnabas_client.config.settings import INT_MAX, setting
from barnabas_client.errors import ConfigurationError
from barnabas_protocol.settings.durations import parse_iso_duration_ms

BY_DURATION: Final = "by_duration:"
OFFSET_RESETS: Final = ("latest", "earliest", "none")


def _check_offset_reset(text: str) -> str | None:
    if text in OFFSET_RESETS:
        return None
    if text.startswith(BY_DURATION):
        try:
            parse_iso_duration_ms(text.removeprefix(BY_DURATION))
        except ValueError as error:
            return str(error)
        return None
    return "it must be latest, earliest, none or by_duration: and a duration, as by_duration:PT1H"


def _check_strategies(strategies: Sequence[Any]) -> str | None:
    return None if strategies else "name at least one, as 'cooperative-sticky'"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings(ClientSettings):
    """What a consumer can be told."""

    role: ClassVar[str] = "consumer"

    group_id: str | None = setting(
        None, why="The group that shares the partitions and keeps offsets; `subscribe` needs it."
    )
    group_instance_id: str | None = setting(
        None,
        why="A name of this member that stays the same over restarts, which then cost no "
        "rebalance within session_timeout_ms.",
    )
    group_protocol: str = setting(
        "auto",
        choices=("auto", "classic", "consumer"),
        why="`consumer` is KIP-848, where the broker assigns; `auto` takes it where it is served "
        "and no setting of the classic protocol differs from its default. Java begins with "
        "classic.",
    )
    group_remote_assignor: str | None = setting(
        None, why="The broker's assignor for group_protocol=consumer; the default is its choice."
    )
    partition_assignment_strategy: Sequence[Any] = setting(
        ("range", "cooperative-sticky"),
        check=_check_strategies,
        why="Assignors for group_protocol=classic, in order of preference: range, roundrobin, "
        "sticky, cooperative-sticky or objects.",
    )
    session_timeout_ms: int = setting(
        45000,
        minimum=1,
        maximum=INT_MAX,
        unit="ms",
        why="A member that is not heard of for so long is taken out of the group.",
    )
    heartbeat_interval_ms: int = setting(
        3000, minimum=1, maximum=INT_MAX, unit="ms", why="How often the group hears of a member."
    )
    max_poll_interval_ms: int = setting(
        300000,
        minimum=1,
        maximum=INT_MAX,
        unit="ms",
        why="A member that does not ask for records for so long leaves the group.",
    )
    max_poll_records: int = setting(
        500, minimum=1, maximum=INT_MAX, why="The most records that one `poll` returns."
    )
    enable_auto_commit: bool = setting(
        True, why="Commit what was handed out, every auto_commit_interval_ms and at the end."
    )
    auto_commit_interval_ms: int = setting(
        5000, minimum=0, maximum=INT_MAX, unit="ms", why="How often offsets are committed."
    )
    auto_offset_reset: str = setting(
        "latest",
        check=_check_offset_reset,
        why="Where to begin without a committed offset: latest, earliest, none (an error), or "
        "`by_duration:PT1H` for what is younger than an hour.",
    )
    isolation_level: str = setting(
        "read_uncommitted",
        choices=("read_uncommitted", "read_committed"),
        why="Whether records of open and aborted transactions are seen.",
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
    max_partition_fetch_bytes: int = setting(
        1048576,
        minimum=0,
        maximum=INT_MAX,
        unit="bytes",
        why="The most of one partition in one answer, with the same exception.",
    )
    prefetch_bytes_max: int = setting(
        67108864,
        minimum=1,
        maximum=INT_MAX,
        unit="bytes",
        why="No more is fetched while this much waits to be handed out.",
    )
    check_crcs: bool = setting(True, why="Whether the checksum of every batch is verified.")
    exclude_internal_topics: bool = setting(
        True, why="Whether a pattern leaves out topics such as `__consumer_offsets`."
    )
    key_deserializer: Callable[[bytes], Any] | Deserializer | None = setting(
        None, why="Turns the bytes of a key into an object; the default hands out the bytes."
    )
    value_deserializer: Callable[[bytes], Any] | Deserializer | None = setting(
        None, why="Turns the bytes of a value into an object; the default hands out the bytes."
    )
    interceptors: Sequence[Any] = setting(
        (), why="Objects that see records before they are handed out, and commits."
    )

    @property
    def offset_reset_duration_ms(self) -> int | None:
        """How far back `by_duration` begins; None for the other policies."""
        if not self.auto_offset_reset.startswith(BY_DURATION):
            return None
        return parse_iso_duration_ms(self.auto_offset_reset.removeprefix(BY_DURATION))

    def check(self) -> None:
        """Refuse timeouts and group settings that cannot work together (CON-10)."""
        ClientSettings.check(self)
        if self.group_id == "":
            raise ConfigurationError("group_id is empty: leave it out or give the group a name")
        if self.group_instance_id == "":
            raise ConfigurationError("group_instance_id is empty: leave it out or name the member")
        if self.group_instance_id is not None and self.group_id is None:
            raise ConfigurationError("group_instance_id is given without group_id: give both")
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigurationError(
                f"heartbeat_interval_ms={self.heartbeat_interval_ms} must be below "
                f"session_timeout_ms={self.session_timeout_ms}, best a third of it"
            )
        if self.fetch_max_wait_ms >= self.request_timeout_ms:
            raise ConfigurationError(
                f"fetch_max_wait_ms={self.fetch_max_wait_ms} must be below request_timeout_ms="
                f"{self.request_timeout_ms}, or every fetch that waits would time out"
            )
        if self.group_remote_assignor is not None and self.group_protocol == "classic":
            raise ConfigurationError(
                "group_remote_assignor has no effect with group_protocol=classic: leave one out"
            )

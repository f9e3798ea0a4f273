"""What a share consumer returns, and how a record is acknowledged.

Not here: reading them from responses (`acquired_fetch.py`).

Source: KIP-932 (types 0 to 3), KIP-1222 (4, renew); SHR-15, SHR-40.
Invariants: a `ShareRecord` is a plain tuple, because one is created per record; its first nine
fields are those of a `ConsumerRecord`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple, TypeAlias

from barnabas_client.errors import BarnabasError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.records.record import Header


class AcknowledgeType(IntEnum):
    """What is to become of a record that was delivered."""

    ACCEPT = 1
    """It was processed: it is not delivered again."""
    RELEASE = 2
    """It was not: it is delivered again, to any member, up to the group's limit."""
    REJECT = 3
    """It cannot be processed: it is not delivered again."""
    RENEW = 4
    """It is still being processed: its lock starts again, and it stays open (KIP-1222)."""


class ShareRecord(NamedTuple):
    """One record; `delivery_count` is 1 at its first delivery.

    Key and value are bytes unless there are deserializers. `timestamp_ms` counts from 1970.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: Any
    value: Any
    headers: tuple[Header, ...] = ()
    leader_epoch: int = -1
    delivery_count: int = 1


class AcknowledgedRange(NamedTuple):
    """Offsets that are acknowledged alike; the last one is included. Type 0 is a gap."""

    first_offset: int
    last_offset: int
    acknowledge_type: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgementResult:
    """What became of acknowledgements of one partition; `error` is None where they hold."""

    topic_partition: TopicPartition
    ranges: tuple[AcknowledgedRange, ...]
    error: BarnabasError | None


AcknowledgementCallback: TypeAlias = Callable[[AcknowledgementResult], None]

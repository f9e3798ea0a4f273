"""Values of `admin.log_dirs`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from barnabas_client.errors import BarnabasError
from barnabas_protocol.ids import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSize:
    """A replica in a log directory.

    `offset_lag` counts from the high watermark, or for a future replica (one that is being moved
    here from another directory) from the log end offset of the current one.
    """

    size_bytes: int
    offset_lag: int
    is_future: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirDescription:
    """A log directory of a broker; None where the broker does not say.

    A directory that fails has an error and nothing else.
    """

    path: str
    error: BarnabasError | None = None
    total_bytes: int | None = None
    usable_bytes: int | None = None
    is_cordoned: bool = False
    replicas: Mapping[TopicPartition, ReplicaSize]


class TopicPartitionReplica(NamedTuple):
    """One replica: a partition on a broker."""

    topic: str
    partition: int
    broker_id: int

    def __str__(self) -> str:
        """Return what an error message shows."""
        return f"{self.topic}-{self.partition} on broker {self.broker_id}"

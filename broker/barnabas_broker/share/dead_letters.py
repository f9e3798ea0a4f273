"""Dead letters of share groups: what they say, as values. Source: KIP-1191; SHR-36, SHR-37.

Not here: their batches (`dead_letter_batch.py`), who writes them (`dead_letter_writer.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from barnabas_broker.replication.partition import Partition
from barnabas_broker.share.persister import SharePartitionKey


class DeadLetterCause(Enum):
    """Why a record is not delivered again, in Kafka's words."""

    REJECTED = "Offset rejected by client."
    DELIVERY_COUNT = "Offset delivery count exceeded the threshold."


class DeadLetters(NamedTuple):
    """Offsets, first to last inclusive, that become dead letters for the same reason."""

    first_offset: int
    last_offset: int
    delivery_count: int
    cause: DeadLetterCause


class DeadLetterWriter(Protocol):
    """Writes dead letters to the topic that a group has for them."""

    async def write(
        self,
        key: SharePartitionKey,
        partition: Partition,
        letters: Sequence[DeadLetters],
        *,
        is_wanted: Callable[[], bool],
    ) -> None:
        """Return when all are written, or given up and counted; raises nothing.

        The letters are in the order of offsets and do not overlap. `is_wanted`: whether this
        broker still speaks for the share partition; where not, it returns without an outcome.
        """
        ...

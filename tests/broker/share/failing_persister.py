"""A persister in memory whose next calls fail as a test wants, and that remembers what it wrote."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas_broker.share.persister import SharePartitionKey, StateBatch
from barnabas_protocol.errors import ErrorCode
from tests.support.memory_share_persister import MemorySharePersister


class FailingPersister(MemorySharePersister):
    """Errors of the next reads and writes, each once; start, count and batches of each write."""

    def __init__(self) -> None:
        super().__init__()
        self.failures: dict[str, list[ErrorCode]] = {"read": [], "write": []}
        self.writes: list[tuple[int, int, tuple[StateBatch, ...]]] = []
        self.fail_with = self._next_failure

    def _next_failure(self, operation: str, key: SharePartitionKey) -> ErrorCode | None:
        failures = self.failures.get(operation)
        return failures.pop(0) if failures else None

    @property
    def read_count(self) -> int:
        """How often a state was read."""
        return sum(operation == "read" for operation, _ in self.calls)

    async def write(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
    ) -> None:
        await super().write(
            key, state_epoch, leader_epoch, start_offset, delivery_complete_count, batches
        )
        self.writes.append((start_offset, delivery_complete_count, tuple(batches)))

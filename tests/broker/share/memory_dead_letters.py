"""A writer of dead letters that keeps them in memory, and waits as long as a test wants."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from barnabas_broker.replication.partition import Partition
from barnabas_broker.share.dead_letters import DeadLetters
from barnabas_broker.share.persister import SharePartitionKey


class MemoryDeadLetters:
    """What was written, in the order of the writes."""

    def __init__(self) -> None:
        self.written: list[DeadLetters] = []
        self.begun: list[DeadLetters] = []
        self._going = asyncio.Event()
        self._going.set()

    def hold(self) -> None:
        """Keep writes from now on."""
        self._going.clear()

    def release(self) -> None:
        """Let them go on."""
        self._going.set()

    async def write(
        self,
        key: SharePartitionKey,
        partition: Partition,
        letters: Sequence[DeadLetters],
        *,
        is_wanted: Callable[[], bool],
    ) -> None:
        self.begun += letters
        await self._going.wait()
        if is_wanted():
            self.written += letters

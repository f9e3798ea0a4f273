"""The state of share partitions in memory, by the rules of the share coordinators (SHR-25).

fail_with     calls raise this code, and change nothing
hold()        calls wait until `release()`
calls         what was asked for, in order: the operation and the key's partition
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from barnabas_broker.share.persister import (
    SharePartitionKey,
    ShareState,
    ShareStateSummary,
    StateBatch,
)
from barnabas_protocol.errors import ErrorCode, KafkaError

NOTHING = ShareStateSummary(0, 0, -1, -1)


class MemorySharePersister:
    """A persister without coordinators."""

    def __init__(self) -> None:
        self.states: dict[SharePartitionKey, ShareState] = {}
        self.leader_epochs: dict[SharePartitionKey, int] = {}
        self.complete_counts: dict[SharePartitionKey, int] = {}
        self.fail_with: Callable[[str, SharePartitionKey], ErrorCode | None] = lambda *_: None
        self.calls: list[tuple[str, int]] = []
        self._going = asyncio.Event()
        self._going.set()

    def hold(self) -> None:
        """Keep calls from now on."""
        self._going.clear()

    def release(self) -> None:
        """Let them go on."""
        self._going.set()

    async def _enter(self, operation: str, key: SharePartitionKey) -> None:
        self.calls.append((operation, key.partition))
        await self._going.wait()
        code = self.fail_with(operation, key)
        if code is not None:
            raise KafkaError(code)

    def _known(self, key: SharePartitionKey, leader_epoch: int) -> ShareState:
        state = self.states.get(key)
        if state is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        if leader_epoch < self.leader_epochs.get(key, -1):
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
        self.leader_epochs[key] = leader_epoch
        return state

    async def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> None:
        await self._enter("initialize", key)
        before = self.states.get(key)
        if before is not None and state_epoch < before.state_epoch:
            raise KafkaError(ErrorCode.FENCED_STATE_EPOCH)
        self.states[key] = ShareState(state_epoch, start_offset, ())
        self.complete_counts[key] = -1

    async def read(self, key: SharePartitionKey, leader_epoch: int) -> ShareState:
        await self._enter("read", key)
        return self._known(key, leader_epoch)

    async def write(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
    ) -> None:
        await self._enter("write", key)
        state = self._known(key, leader_epoch)
        if state_epoch < state.state_epoch:
            raise KafkaError(ErrorCode.FENCED_STATE_EPOCH)
        self.states[key] = replace(
            state,
            start_offset=max(start_offset, state.start_offset),
            batches=(*state.batches, *batches),
        )
        self.complete_counts[key] = delivery_complete_count

    async def delete(self, key: SharePartitionKey) -> None:
        await self._enter("delete", key)
        self.states.pop(key, None)

    async def summary(self, key: SharePartitionKey) -> ShareStateSummary:
        await self._enter("summary", key)
        state = self.states.get(key)
        if state is None:
            return NOTHING
        return ShareStateSummary(
            state.state_epoch,
            self.leader_epochs.get(key, 0),
            state.start_offset,
            self.complete_counts[key],
        )

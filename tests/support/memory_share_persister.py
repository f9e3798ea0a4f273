"""The state of share partitions in memory, by the rules of the share coordinators (SHR-25).

It passes the same tests as the real one (`tests/broker/share/test_persisters.py`).

fail_with     calls raise this code, and change nothing
hold()        calls wait until `release()`
calls         what was asked for, in order: the operation and the key's partition
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from barnabas_broker.coordinator.share.shard import NO_STATE
from barnabas_broker.coordinator.share.state import ShareSnapshot
from barnabas_broker.share.persister import (
    SharePartitionKey,
    ShareState,
    ShareStateSummary,
    StateBatch,
)
from barnabas_protocol.errors import ErrorCode, KafkaError


class MemorySharePersister:
    """A persister without coordinators."""

    def __init__(self) -> None:
        self.states: dict[SharePartitionKey, ShareSnapshot] = {}
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

    def _known(self, key: SharePartitionKey, leader_epoch: int) -> ShareSnapshot:
        state = self.states.get(key)
        if state is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        if leader_epoch < state.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
        return state

    async def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> None:
        await self._enter("initialize", key)
        before = self.states.get(key)
        if before is not None:
            if state_epoch < before.state_epoch:
                raise KafkaError(ErrorCode.FENCED_STATE_EPOCH)
            if (state_epoch, start_offset) == (before.state_epoch, before.start_offset):
                return
        self.states[key] = ShareSnapshot(
            snapshot_epoch=0,
            state_epoch=state_epoch,
            leader_epoch=0 if before is None else before.leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=-1 if start_offset < 0 else 0,
            created_ms=0,
            written_ms=0,
        )

    async def read(self, key: SharePartitionKey, leader_epoch: int) -> ShareState:
        await self._enter("read", key)
        state = self.states[key] = replace(
            self._known(key, leader_epoch), leader_epoch=leader_epoch
        )
        return state.read

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
        if state_epoch != state.state_epoch:
            raise KafkaError(ErrorCode.FENCED_STATE_EPOCH)
        update = state.update(
            state.leader_epoch, start_offset, delivery_complete_count, tuple(batches)
        )
        self.states[key] = state.updated(update)

    async def delete(self, key: SharePartitionKey) -> None:
        await self._enter("delete", key)
        self.states.pop(key, None)

    async def summary(self, key: SharePartitionKey) -> ShareStateSummary:
        await self._enter("summary", key)
        state = self.states.get(key)
        return NO_STATE if state is None else state.summary

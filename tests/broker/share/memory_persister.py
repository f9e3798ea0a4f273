"""Keeps the state of share partitions in memory, and checks what a share coordinator checks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from barnabas_broker.coordinator.share.state import ShareSnapshot
from barnabas_broker.share.persister import (
    SharePartitionKey,
    ShareState,
    ShareStateSummary,
    StateBatch,
)
from barnabas_protocol.errors import ErrorCode, KafkaError

NOTHING = ShareStateSummary(-1, -1, -1, -1)


class MemoryPersister:
    """A `SharePersister` for all leaders of a test. Its calls can be held up, and fail."""

    def __init__(self) -> None:
        self.states: dict[SharePartitionKey, ShareSnapshot] = {}
        self.writes: list[tuple[int, int, tuple[StateBatch, ...]]] = []
        # Errors of the next calls, in order; None lets one pass.
        self.fail_reads: list[ErrorCode | None] = []
        self.fail_writes: list[ErrorCode | None] = []
        # Whether a write that fails was carried out.
        self.carries_out_failing = False
        self.gate = asyncio.Event()
        self.gate.set()
        self.read_count = 0

    async def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> None:
        self.states[key] = ShareSnapshot(
            snapshot_epoch=0,
            state_epoch=state_epoch,
            leader_epoch=0,
            start_offset=start_offset,
            delivery_complete_count=0,
            created_ms=0,
            written_ms=0,
        )

    async def read(self, key: SharePartitionKey, leader_epoch: int) -> ShareState:
        self.read_count += 1
        await self.gate.wait()
        self._fail(self.fail_reads)
        state = self._state(key, leader_epoch)
        self.states[key] = state.updated(state.update(leader_epoch, -1, -1, ()))
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
        await self.gate.wait()
        failing = self.fail_writes[:1]
        if failing and failing[0] is not None and not self.carries_out_failing:
            self._fail(self.fail_writes)
        state = self._state(key, leader_epoch)
        if state_epoch < state.state_epoch:
            raise KafkaError(ErrorCode.FENCED_STATE_EPOCH)
        self.writes.append((start_offset, delivery_complete_count, tuple(batches)))
        update = state.update(leader_epoch, start_offset, delivery_complete_count, tuple(batches))
        self.states[key] = state.updated(update)
        self._fail(self.fail_writes)

    async def delete(self, key: SharePartitionKey) -> None:
        self.states.pop(key, None)

    async def summary(self, key: SharePartitionKey) -> ShareStateSummary:
        state = self.states.get(key)
        return NOTHING if state is None else state.summary

    def _state(self, key: SharePartitionKey, leader_epoch: int) -> ShareSnapshot:
        state = self.states.get(key)
        if state is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        if leader_epoch < state.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
        return state

    @staticmethod
    def _fail(errors: list[ErrorCode | None]) -> None:
        code = errors.pop(0) if errors else None
        if code is not None:
            raise KafkaError(code)

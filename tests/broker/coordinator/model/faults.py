"""Faults that the coordinators had, planted again one at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from barnabas_broker.coordinator.group.classic import ClassicGroup
from barnabas_broker.coordinator.group.commits import OffsetCommands
from barnabas_broker.coordinator.group.coordinator import GroupCoordinator
from barnabas_broker.coordinator.group.offsets import OffsetStore
from barnabas_broker.coordinator.group.rebalance import Rebalancer
from barnabas_broker.coordinator.group.sync import Syncer
from barnabas_broker.coordinator.runtime.loop import CoordinatorRuntime
from barnabas_broker.coordinator.runtime.pipeline import ShardPipeline
from barnabas_broker.coordinator.runtime.shard import Instant, Result
from barnabas_protocol.errors import KafkaError
from barnabas_protocol.hashing import coordinator_partition
from tests.broker.coordinator.model.replicated_log import BrokerWriter

Patch = tuple[type, str, Any]


def note_setting(groups: GroupCoordinator, node: int) -> None:
    """Give a broker a setting of its own."""
    groups.runtime.__dict__["partition_count_setting"] = (4, 2)[node]


def _by_setting(self: Any, group_id: str) -> int:
    return coordinator_partition(group_id, self.partition_count_setting)


def _second_assignment(self: Syncer, group: ClassicGroup, request: Any) -> Result[None]:
    result = _persist(self, group, request)
    group.assigned_generation_id = -1
    return result


_persist = Syncer._persist


_kept: list[ClassicGroup] = []


def _keep_until_committed(self: OffsetCommands, group: ClassicGroup) -> None:
    """Leave a group of which the log knows where it is; `_bury_if_empty` takes it out."""
    if group.generation_id:
        _kept.append(group)
    else:
        _take_out(self, group)


_take_out = OffsetCommands.take_out


def _bury_if_empty(self: OffsetCommands, groups: Any, now: Instant) -> None:
    for group in _kept:
        group_id = group.group_id
        is_gone = group.is_empty and not self._store.has_any(group_id)
        if is_gone and self._groups.get(group_id) is group:
            del self._groups[group_id]
    _kept.clear()


async def _at_once(self: BrokerWriter, topic_partition: Any, end_offset: int) -> None:
    """Do not wait for what was read to be committed."""


def _failed_for_good(self: Any, partition: int, slot: Any, error: Exception) -> None:
    schedule, self._timer = self._timer, _NoTimer()
    try:
        _load_failed(self, partition, slot, error)
    finally:
        self._timer = schedule


_load_failed = CoordinatorRuntime._load_failed


class _NoTimer:
    def schedule(self, delay_ms: int, callback: Callable[[], Any]) -> None:
        """Forget it."""


def _pending_even_if_superseded(self: OffsetStore, key: Any, order: int) -> None:
    """Leave what transactions have for a key that is written later."""


def _names_alone(self: OffsetCommands, deleted: Any) -> Result[None]:
    records: list[Any] = []
    for group_id in list(self._groups):
        gone = [key for key in self._store.of_group(group_id) if key[0] in deleted]
        records += self._remove(group_id, gone)
    return Result(reply=None, records=records, is_atomic=False)


async def _one_after_the_other(self: GroupCoordinator, deleted: Any) -> None:
    for partition, _ in self.runtime.shards():
        with suppress(KafkaError):
            await self.runtime.execute(
                partition, lambda shard, _: shard.commits.delete_topics(deleted)
            )


def _oldest_first(self: Any, error: KafkaError) -> bool:
    queue: deque[Any] = self._queue
    hooks = [write.result.on_append for write in queue]
    for write, hook in zip(queue, reversed(hooks), strict=True):
        write.result.on_append = hook
    return bool(_failed(self, error))


_failed = ShardPipeline._failed


def _write_empty_once(self: Rebalancer, group: ClassicGroup) -> Result[None]:
    result = _write_empty(self, group)
    result.on_append = None
    return result


_write_empty = Rebalancer._write_empty


def _time_out_undoes(self: Any) -> None:
    """Take a write that is late back, as if it were refused."""
    if self._queue and self._append_task is not None:
        self.shard.journal.roll_back(self._queue[0].sequence)
    _time_out(self)


_time_out = ShardPipeline._time_out

FAULTS: dict[str, list[Patch]] = {
    "C1: groups are mapped by each broker's setting": [
        (CoordinatorRuntime, "partition_for", _by_setting)
    ],
    "C3: a generation may have two assignments": [(Syncer, "_persist", _second_assignment)],
    "C4: a group stays until its tombstones are committed": [
        (OffsetCommands, "take_out", _keep_until_committed),
        (OffsetCommands, "bury", _bury_if_empty),
    ],
    "C5: what a load reads counts as committed": [(BrokerWriter, "wait_committed", _at_once)],
    "C6: a failed load is not tried again": [
        (CoordinatorRuntime, "_load_failed", _failed_for_good)
    ],
    "C7: what is superseded is pending": [
        (OffsetStore, "_supersede_pending", _pending_even_if_superseded),
    ],
    "topic_recreated: the clean-up goes by names": [
        (OffsetCommands, "delete_topics", _names_alone),
        (GroupCoordinator, "on_topics_deleted", _one_after_the_other),
    ],
    "hooks of refused commands run oldest first": [(ShardPipeline, "_failed", _oldest_first)],
    "a refused record of an Empty group is not written again": [
        (Rebalancer, "_write_empty", _write_empty_once)
    ],
    "a late write is undone": [(ShardPipeline, "_time_out", _time_out_undoes)],
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Run with a fault."""
    before = [(owner, attribute, owner.__dict__[attribute]) for owner, attribute, _ in FAULTS[name]]
    for owner, attribute, replacement in FAULTS[name]:
        setattr(owner, attribute, replacement)
    try:
        yield
    finally:
        for owner, attribute, original in before:
            setattr(owner, attribute, original)

"""Random walks: whatever is interrupted, no reset happens twice, and undoing restores what was.

A walk mixes passes of the operator, its death at any point, consumers that come, read and go, and
people who ask for resets and take them back. Its seed is in the name of the test and replays it.
"""

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import pytest

from barnabas_client.errors import RejectedError
from barnabas_operator.group_spec import (
    GroupSpec,
    ResetRequest,
    ResetTarget,
    TopicSelection,
    UndoRequest,
    WhenActive,
)
from barnabas_operator.reconcile.group.group_apply import resume
from barnabas_operator.reconcile.group.group_record import operations_fields, read_operations
from barnabas_operator.reconcile.group.group_state import (
    Action,
    GroupFinding,
    ObservedGroups,
    Operation,
    Operations,
    Phase,
    SetOffsets,
)
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition
from tests.support.memory_groups import CutOffError, MemoryGroups, confirmed

STEPS = 120
ALL = (TopicSelection(name="orders"),)


class Walk:
    """One history of a group and its resource; what is recorded survives as a status does."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.cluster = MemoryGroups(3)
        self.status: dict[str, object] = {}
        self.spec = GroupSpec(resource="ns/billing", group_id="billing")
        self.ids = 0
        # By what was asked for, how often offsets were really set for it.
        self.carried_out: dict[str, int] = {}
        self.cluster.commit(20, 40, 70)
        self.cluster.after_action = self.maybe_die
        self.is_reliable = False

    def maybe_die(self) -> None:
        if not self.is_reliable and self.random.random() < 0.25:
            raise CutOffError

    def running(self) -> Operation:
        operations = read_operations(self.status)
        for operation in (operations.reset, operations.undo):
            if operation is not None and operation.phase is Phase.RUNNING:
                return operation
        raise AssertionError("offsets were set with nothing recorded")

    async def carry_out(self, action: Action) -> Exception | None:
        """As the cluster does it, checking what the operator must have written down before."""
        self.maybe_die()
        if self.cluster.members:
            return RejectedError("members", ErrorCode.NON_EMPTY_GROUP)
        assert isinstance(action, SetOffsets)
        operation = self.running()
        for topic_partition, old in operation.before.items():
            has_gone_on = self.cluster.committed.get(topic_partition) not in (
                old,
                operation.after[topic_partition],
            )
            assert not has_gone_on, "the group's own progress would be taken back"
        for topic_partition, offset in action.offsets.items():
            assert operation.after[topic_partition] == offset
            assert self.cluster.committed.get(topic_partition) == operation.before[topic_partition]
        self.carried_out[operation.request + operation.id] = (
            self.carried_out.get(operation.request + operation.id, 0) + 1
        )
        return await self.cluster.carry_out(action)

    async def list_ids(self) -> tuple[str, ...]:
        return await self.cluster.list_ids()

    async def observe(self, questions: object) -> ObservedGroups:
        return self.cluster.observed()

    async def record(
        self, operations: Operations, findings: Sequence[GroupFinding], observed: ObservedGroups
    ) -> None:
        self.maybe_die()
        kept = operations_fields(operations)
        self.status = {name: value for name, value in kept.items() if value is not None}
        assert read_operations(self.status) == operations
        self.maybe_die()

    def reconcile(self) -> None:
        recorded = read_operations(self.status)
        observed = self.cluster.observed()
        with suppress(CutOffError):
            asyncio.run(
                resume(
                    self.spec,
                    recorded,
                    observed,
                    self,
                    self.record,
                    owner=self.spec,
                    confirm=confirmed,
                )
            )

    def ask(self) -> None:
        """A person edits the resource."""
        match self.random.randrange(4):
            case 0 | 1:
                self.ids += 1
                target = self.random.choice([ResetTarget.EARLIEST, ResetTarget.LATEST])
                when_active = self.random.choice(list(WhenActive))
                reset = ResetRequest(
                    id=f"r{self.ids}", target=target, topics=ALL, when_active=when_active
                )
                self.spec = replace(self.spec, reset=reset)
            case 2:
                snapshot = read_operations(self.status).snapshot
                if snapshot is not None:
                    undo = UndoRequest(id=snapshot.id, when_active=WhenActive.WAIT)
                    self.spec = replace(self.spec, undo=undo)
            case 3:
                self.spec = replace(self.spec, reset=None, undo=None)

    def consume(self) -> None:
        """A consumer reads on by itself, in some partitions; different offsets each time."""
        if not self.cluster.members:
            self.cluster.join()
        for topic_partition in self.random.sample(
            self.cluster.topic_partitions, self.random.randint(1, 3)
        ):
            self.cluster.committed[topic_partition] = self.random.randrange(11, 100)
        if self.random.random() < 0.7:
            self.cluster.leave()

    def step(self) -> None:
        self.random.choice(
            [self.reconcile, self.reconcile, self.reconcile, self.ask, self.consume]
        )()


@pytest.mark.parametrize("seed", range(80))
def test_no_operation_sets_offsets_twice_whatever_is_interrupted(seed: int) -> None:
    """operator.md 8.2: runs once per id. An operator that dies must not make it twice."""
    walk = Walk(seed)
    for _ in range(STEPS):
        walk.step()
    assert all(count == 1 for count in walk.carried_out.values()), walk.carried_out


def test_the_walks_do_carry_operations_out_and_do_interrupt_them() -> None:
    """Else the test above proves nothing."""
    carried_out = resets = undos = failed = 0
    for seed in range(40):
        walk = Walk(seed)
        for _ in range(STEPS):
            walk.step()
            reset = read_operations(walk.status).reset
            failed += reset is not None and reset.phase is Phase.FAILED
        carried_out += len(walk.carried_out)
        undos += sum(request.startswith("undo") for request in walk.carried_out)
        resets += sum(not request.startswith("undo") for request in walk.carried_out)
    assert resets > 100
    assert undos > 20
    assert failed > 0, "no walk had a group go on after an interrupted reset"


@pytest.mark.parametrize("seed", range(50))
def test_undoing_restores_what_was_before_however_often_it_is_interrupted(seed: int) -> None:
    walk = Walk(seed)
    before = dict(walk.cluster.committed)
    if walk.random.random() < 0.3:
        del walk.cluster.committed[TopicPartition("orders", 1)]
        del before[TopicPartition("orders", 1)]
    reset = ResetRequest(id="r1", target=ResetTarget.LATEST, topics=ALL)
    walk.spec = replace(walk.spec, reset=reset)
    until_done(walk, "reset")
    assert walk.cluster.committed == dict.fromkeys(walk.cluster.topic_partitions, 100)
    walk.consume()
    walk.cluster.leave()
    walk.spec = replace(walk.spec, undo=UndoRequest(id="r1"))
    until_done(walk, "undo")
    assert walk.cluster.committed == before


def until_done(walk: Walk, kind: str) -> None:
    for _ in range(200):
        walk.reconcile()
        operation = getattr(read_operations(walk.status), kind)
        if operation is not None and operation.phase is Phase.DONE:
            return
    raise AssertionError(f"never done: {walk.status}")

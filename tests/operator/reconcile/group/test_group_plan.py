"""What is decided about a group: each rule of resets, undoing and deletions by itself."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from barnabas_operator.group_spec import (
    DeleteRequest,
    GroupSpec,
    ResetRequest,
    ResetTarget,
    TopicSelection,
    UndoRequest,
    WhenActive,
)
from barnabas_operator.reconcile.group.group_apply import resume
from barnabas_operator.reconcile.group.group_plan import owners
from barnabas_operator.reconcile.group.group_state import (
    GroupFinding,
    GroupReason,
    ObservedGroups,
    Operation,
    Operations,
    Phase,
    SetOffsets,
)
from barnabas_protocol.ids import TopicPartition
from tests.support.memory_groups import CutOffError, MemoryGroups, confirmed

ORDERS = TopicSelection(name="orders")


def a_reset(target: str = "earliest", id_: str = "r1", **fields: Any) -> ResetRequest:
    return ResetRequest(id=id_, target=ResetTarget(target), **fields)


class World:
    """A resource `billing` over time, with what is recorded of it."""

    def __init__(self, partitions: int = 3) -> None:
        self.cluster = MemoryGroups(partitions)
        self.recorded = Operations()
        self.findings: Sequence[GroupFinding] = ()
        self.spec = GroupSpec(resource="ns/billing", group_id="billing")

    def reconcile(self, **changes: Any) -> Operations:
        self.spec = replace(self.spec, **changes)

        async def record(
            operations: Operations, findings: Sequence[GroupFinding], observed: ObservedGroups
        ) -> None:
            self.recorded, self.findings = operations, findings

        observed = self.cluster.observed()
        asyncio.run(
            resume(
                self.spec,
                self.recorded,
                observed,
                self.cluster,
                record,
                owner=self.spec,
                confirm=confirmed,
            )
        )
        return self.recorded

    @property
    def offsets(self) -> list[int | None]:
        return [
            self.cluster.committed.get(topic_partition)
            for topic_partition in self.cluster.topic_partitions
        ]


def cut_off() -> None:
    raise CutOffError


def phase(operation: Operation | None) -> Phase:
    assert operation is not None
    return operation.phase


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (a_reset("earliest"), [10, 10, 10]),
        (a_reset("latest"), [100, 100, 100]),
        (a_reset("timestamp", timestamp_ms=5000), [42, 42, 42]),
        (a_reset("offset", offset=60), [60, 60, 60]),
        (a_reset("offset", offset=5), [10, 10, 10]),
        (a_reset("shift-by", shift_by=-25), [10, 15, 45]),
        (a_reset("shift-by", shift_by=50), [70, 90, 100]),
        (a_reset(topics=(TopicSelection(name="orders", partitions=(1,)),)), [20, 10, 70]),
    ],
    ids=lambda value: value.text if isinstance(value, ResetRequest) else "",
)
def test_each_target_has_its_offsets_within_the_log(
    request_: ResetRequest, expected: list[int]
) -> None:
    world = World()
    world.cluster.commit(20, 40, 70)
    assert phase(world.reconcile(reset=request_).reset) is Phase.DONE
    assert world.offsets == expected


def test_a_reset_runs_once_for_each_id() -> None:
    """operator.md 8.2: the group goes on after it, and nothing takes it back again."""
    world = World()
    world.cluster.commit(20, 40, 70)
    world.reconcile(reset=a_reset())
    world.cluster.commit(30, 30, 30)
    world.reconcile()
    assert world.offsets == [30, 30, 30]
    world.reconcile(reset=a_reset(id_="r2"))
    assert world.offsets == [10, 10, 10]
    world.cluster.commit(30, 30, 30)
    world.reconcile(reset=a_reset())
    assert world.offsets == [30, 30, 30]
    assert [finding.reason for finding in world.findings] == [GroupReason.ID_USED]


def test_another_reset_under_a_used_id_is_told_and_not_done() -> None:
    world = World()
    world.cluster.commit(20, 40, 70)
    world.reconcile(reset=a_reset())
    world.reconcile(reset=a_reset("latest"))
    assert world.offsets == [10, 10, 10]
    assert [finding.reason for finding in world.findings] == [GroupReason.ID_USED]
    world.reconcile(reset=a_reset(when_active=WhenActive.WAIT))
    assert world.findings == ()


def test_a_live_group_is_refused_and_not_reset_later_by_surprise() -> None:
    """operator.md 8.2: refused while members are live. Hours later it would be a surprise."""
    world = World()
    world.cluster.commit(20, 40, 70)
    world.cluster.join()
    refused = world.reconcile(reset=a_reset()).reset
    assert phase(refused) is Phase.REFUSED
    assert refused is not None
    assert "1 member" in refused.message
    world.cluster.leave()
    assert phase(world.reconcile().reset) is Phase.REFUSED
    assert world.offsets == [20, 40, 70]
    assert phase(world.reconcile(reset=a_reset(id_="r2")).reset) is Phase.DONE
    assert world.offsets == [10, 10, 10]


def test_a_reset_that_waits_is_carried_out_when_the_last_member_has_left() -> None:
    world = World()
    world.cluster.commit(20, 40, 70)
    world.cluster.join()
    assert phase(world.reconcile(reset=a_reset()).reset) is Phase.REFUSED
    waiting = a_reset(when_active=WhenActive.WAIT)
    assert phase(world.reconcile(reset=waiting).reset) is Phase.WAITING
    world.cluster.commit(25, 45, 75)
    world.cluster.leave()
    reset = world.reconcile().reset
    assert phase(reset) is Phase.DONE
    assert reset is not None
    assert [*reset.before.values()] == [25, 45, 75]
    assert world.offsets == [10, 10, 10]


def test_a_dry_run_shows_what_would_change_of_a_live_group_too() -> None:
    world = World()
    world.cluster.commit(20, 10, 70)
    world.cluster.join()
    preview = world.reconcile(reset=a_reset(is_dry_run=True)).reset
    assert phase(preview) is Phase.PREVIEW
    assert preview is not None
    assert [*preview.before.values()] == [20, 10, 70]
    assert [*preview.after.values()] == [10, 10, 10]
    assert "2 of 3 partitions" in preview.message
    assert world.cluster.done == []
    world.cluster.leave()
    assert phase(world.reconcile(reset=a_reset()).reset) is Phase.DONE
    assert world.offsets == [10, 10, 10]


@pytest.mark.parametrize(
    ("topics", "message"),
    [
        ((TopicSelection(name="nope"),), "there is no topic 'nope'"),
        ((TopicSelection(name="orders", partitions=(7,)),), "has no partition 7"),
        ((), "no committed offsets: name the topics"),
    ],
)
def test_what_a_reset_cannot_mean_is_told(topics: tuple[TopicSelection, ...], message: str) -> None:
    world = World()
    failed = world.reconcile(reset=a_reset(topics=topics)).reset
    assert phase(failed) is Phase.FAILED
    assert failed is not None
    assert message in failed.message
    world.reconcile(reset=a_reset(topics=(ORDERS,)))
    assert world.offsets == [10, 10, 10], "mended under the same id, because nothing was done"


def test_a_shift_needs_something_committed() -> None:
    world = World()
    reset = a_reset("shift-by", shift_by=1, topics=(ORDERS,))
    assert phase(world.reconcile(reset=reset).reset) is Phase.FAILED
    world.cluster.commit(20)
    shifted = a_reset("shift-by", "r2", shift_by=1, topics=(ORDERS,))
    assert phase(world.reconcile(reset=shifted).reset) is Phase.DONE
    assert world.offsets == [21, None, None]


def test_offsets_that_no_leader_tells_are_waited_for() -> None:
    world = World()
    world.cluster.commit(20, 40, 70)
    last = world.cluster.topic_partitions[-1]
    ends = world.cluster.ends.pop(last)
    waiting = world.reconcile(reset=a_reset()).reset
    assert phase(waiting) is Phase.WAITING
    assert waiting is not None
    assert "orders-2" in waiting.message
    world.cluster.ends[last] = ends
    assert phase(world.reconcile().reset) is Phase.DONE


def test_undoing_restores_what_was_before_and_only_once() -> None:
    """Also where nothing had been committed for a partition."""
    world = World()
    world.cluster.commit(20, 40)
    world.reconcile(reset=a_reset(topics=(ORDERS,)))
    assert world.offsets == [10, 10, 10]
    world.cluster.commit(50, 50, 50)
    undo = UndoRequest(id="r1")
    assert phase(world.reconcile(undo=undo).undo) is Phase.DONE
    assert world.offsets == [20, 40, None]
    world.cluster.commit(60, 60, 60)
    world.reconcile()
    assert world.offsets == [60, 60, 60]


def test_a_preview_or_a_refusal_does_not_lose_the_way_back() -> None:
    world = World()
    world.cluster.commit(20, 40, 70)
    world.reconcile(reset=a_reset())
    world.reconcile(reset=a_reset("latest", "r2", is_dry_run=True))
    world.cluster.join()
    world.reconcile(reset=a_reset("latest", "r3"))
    world.cluster.leave()
    world.reconcile(undo=UndoRequest(id="r1"))
    assert world.offsets == [20, 40, 70]


def test_only_the_last_reset_can_be_undone() -> None:
    world = World()
    world.cluster.commit(20, 40, 70)
    world.reconcile(undo=UndoRequest(id="r0"))
    assert [finding.reason for finding in world.findings] == [GroupReason.NOTHING_TO_UNDO]
    world.reconcile(undo=None, reset=a_reset())
    world.reconcile(reset=a_reset("latest", "r2"))
    world.reconcile(undo=UndoRequest(id="r1"))
    assert [finding.reason for finding in world.findings] == [GroupReason.NOTHING_TO_UNDO]
    assert world.offsets == [100, 100, 100]
    world.reconcile(undo=UndoRequest(id="r2"))
    assert world.offsets == [10, 10, 10]


def test_undoing_a_live_group_is_refused_or_waits() -> None:
    world = World()
    world.cluster.commit(20, 40, 70)
    world.reconcile(reset=a_reset())
    world.cluster.join()
    assert phase(world.reconcile(undo=UndoRequest(id="r1")).undo) is Phase.REFUSED
    world.cluster.leave()
    assert phase(world.reconcile().undo) is Phase.REFUSED
    waiting = UndoRequest(id="r1", when_active=WhenActive.WAIT)
    assert phase(world.reconcile(undo=waiting).undo) is Phase.DONE
    assert world.offsets == [20, 40, 70]


def test_a_deletion_runs_once_and_not_while_members_are_there() -> None:
    world = World()
    world.cluster.commit(20, 40, 70)
    world.cluster.join()
    delete = DeleteRequest(id="d1")
    assert phase(world.reconcile(deletion=delete).deletion) is Phase.REFUSED
    world.cluster.leave()
    again = DeleteRequest(id="d2")
    assert phase(world.reconcile(deletion=again).deletion) is Phase.DONE
    assert not world.cluster.exists
    world.cluster.commit(1, 1, 1)
    world.reconcile()
    assert world.cluster.exists


def test_deleting_what_is_not_there_is_done_at_once() -> None:
    world = World()
    assert phase(world.reconcile(deletion=DeleteRequest(id="d1")).deletion) is Phase.DONE
    assert world.cluster.done == []


def test_an_error_is_told_and_tried_again() -> None:
    world = World()
    world.cluster.commit(20, 40, 70)
    world.cluster.fails_with = RuntimeError("not authorized")
    running = world.reconcile(reset=a_reset()).reset
    assert phase(running) is Phase.RUNNING
    assert running is not None
    assert running.message == "not authorized"
    world.cluster.fails_with = None
    assert phase(world.reconcile().reset) is Phase.DONE
    assert world.offsets == [10, 10, 10]


def test_a_member_that_comes_between_plan_and_commit_wins() -> None:
    """The coordinator refuses the commit; the reset is then refused, or waits."""
    for when_active, expected in ((WhenActive.REFUSE, "Refused"), (WhenActive.WAIT, "Waiting")):
        world = World()
        world.cluster.commit(20, 40, 70)
        world.cluster.before_action = world.cluster.join
        assert phase(world.reconcile(reset=a_reset(when_active=when_active)).reset) == expected
        assert phase(world.reconcile().reset) == expected
        assert world.offsets == [20, 40, 70]


@pytest.mark.parametrize("when_active", list(WhenActive))
def test_a_reset_whose_end_nobody_has_seen_does_not_run_again(when_active: WhenActive) -> None:
    """Of a topic that nobody writes to, members read all again and stand where they stood: that
    looks as if nothing had been done.
    """
    world = World()
    world.cluster.commit(100, 100, 100)
    world.cluster.after_action = cut_off
    with pytest.raises(CutOffError):
        world.reconcile(reset=a_reset(when_active=when_active))
    assert world.offsets == [10, 10, 10]
    world.cluster.join()
    world.cluster.commit(100, 100, 100)
    assert phase(world.reconcile().reset) is Phase.FAILED
    world.cluster.leave()
    assert phase(world.reconcile().reset) is Phase.FAILED
    assert world.offsets == [100, 100, 100]


def test_a_deletion_whose_end_nobody_has_seen_does_not_run_again() -> None:
    """A group that was made again may have committed the same offsets."""
    world = World()
    world.cluster.commit(100, 100, 100)
    world.cluster.after_action = cut_off
    with pytest.raises(CutOffError):
        world.reconcile(deletion=DeleteRequest(id="d1", when_active=WhenActive.WAIT))
    assert not world.cluster.exists
    world.cluster.join()
    world.cluster.commit(100, 100, 100)
    assert phase(world.reconcile().deletion) is Phase.FAILED
    world.cluster.leave()
    world.reconcile()
    assert world.cluster.exists


def test_what_is_taken_out_of_the_spec_is_forgotten_unless_it_was_done() -> None:
    world = World()
    world.cluster.commit(20, 40, 70)
    world.reconcile(reset=a_reset(is_dry_run=True))
    assert world.reconcile(reset=None).reset is None
    world.reconcile(reset=a_reset())
    assert phase(world.reconcile(reset=None).reset) is Phase.DONE


def test_a_paused_resource_changes_nothing() -> None:
    world = World()
    world.cluster.commit(20, 40, 70)
    world.reconcile(reset=a_reset(), is_paused=True)
    assert [finding.reason for finding in world.findings] == [GroupReason.PAUSED]
    assert (world.offsets, world.recorded) == ([20, 40, 70], Operations())


def test_of_two_resources_for_a_group_the_oldest_is_in_charge() -> None:
    """operator.md 2: the oldest wins, and the other is told who it is."""
    world = World()
    old = GroupSpec(resource="a/billing", group_id="billing", age=("2026-01-01", 0, "a"))
    young = replace(old, resource="b/billing", age=("2026-01-02", 0, "b"), reset=a_reset())
    assert owners([young, old])["billing"] is old
    recorded: list[Sequence[GroupFinding]] = []

    async def record(
        operations: Operations, findings: Sequence[GroupFinding], observed: ObservedGroups
    ) -> None:
        recorded.append(findings)

    world.cluster.commit(20, 40, 70)
    asyncio.run(
        resume(
            young,
            Operations(),
            world.cluster.observed(),
            world.cluster,
            record,
            owner=old,
            confirm=confirmed,
        )
    )
    ((finding,),) = recorded
    assert finding.reason is GroupReason.CONFLICT
    assert "'a/billing'" in finding.message
    assert world.offsets == [20, 40, 70]


def test_nothing_is_decided_about_a_group_that_cannot_be_seen() -> None:
    world = World()
    recorded = Operations(reset=Operation(id="r1", request="", phase=Phase.RUNNING))
    world.recorded = recorded
    unseen = replace(world.cluster.group(), error="no coordinator")
    world.cluster.group = lambda: unseen  # type: ignore[method-assign]
    assert world.reconcile() == recorded


def test_only_partitions_that_change_are_committed() -> None:
    """What stays needs no commit, and would otherwise overwrite a commit in between."""
    world = World()
    world.cluster.commit(10, 40, 10)
    world.reconcile(reset=a_reset())
    (action,) = world.cluster.done
    assert isinstance(action, SetOffsets)
    assert action.offsets == {TopicPartition("orders", 1): 10}

"""What was begun for a group outlives the ConsumerGroup that asked for it (findings, row 12)."""

from dataclasses import replace
from typing import Any

import pytest

from barnabas_operator.kubernetes.api import InvalidError
from barnabas_operator.kubernetes.kinds import BROKER, CONFIG_MAP, CONSUMER_GROUP
from barnabas_operator.reconcile.group import operation_ledger
from barnabas_operator.reconcile.group.group_state import Operation, Operations, Phase
from barnabas_operator.reconcile.group.operation_ledger import OperationLedger, begun, held_back
from barnabas_protocol.ids import TopicPartition
from tests.operator.reconcile.group.group_world import EARLIEST, InWorld, World, in_world

__all__ = ["in_world"]

LEDGER = "main-group-operations"
PLACE = TopicPartition("orders", 0)


def noted(world: World) -> str:
    found: Any = world.kubernetes.store.objects[CONFIG_MAP].get(("kafka", LEDGER))
    return "" if found is None else str(found["data"])


def ledger_of(world: World) -> OperationLedger:
    """The ledger as another operator reads it."""
    return OperationLedger(world.api, world.kubernetes.store.get(BROKER, "kafka", "main"))


async def remake(world: World, name: str = "billing", **spec: Any) -> None:
    """Delete the ConsumerGroup, and apply one in its place."""
    world.kubernetes.store.delete(CONSUMER_GROUP, "app", "billing")
    await world.reconcile()
    world.put(name, **spec)
    await world.reconcile()


def test_a_reset_does_not_run_again_when_its_resource_is_made_again(in_world: InWorld) -> None:
    async def story(world: World) -> None:
        world.cluster.commit(20, 40, 70)
        world.put(reset=EARLIEST)
        await world.reconcile()
        world.cluster.commit(80, 80, 80)
        await remake(world, reset=EARLIEST)
        assert [*world.cluster.committed.values()] == [80, 80, 80]
        reset = world.status()["reset"]
        assert reset["phase"] == "Done"
        assert "not done again" in reset["message"]
        assert world.condition("Ready") == ("True", "Observed")
        # An operator that has just begun to lead reads it.
        world.restart_operator()
        await remake(world, name="heir", reset=EARLIEST)
        assert [*world.cluster.committed.values()] == [80, 80, 80]

    in_world(story)


@pytest.mark.parametrize("is_same_cluster", [True, False])
def test_what_was_done_stays_with_the_data_of_a_broker_that_is_made_again(
    in_world: InWorld, is_same_cluster: bool
) -> None:
    """Story 5023 of the simulator: the volumes outlived the Broker, and the ledger did not."""

    async def story(world: World) -> None:
        world.set_cluster_id("first")
        world.cluster.commit(20, 40, 70)
        world.put(reset=EARLIEST)
        await world.reconcile()
        world.cluster.commit(80, 80, 80)
        world.kubernetes.store.delete(BROKER, "kafka", "main")
        await world.reconcile()
        world.put_broker("main")
        world.set_cluster_id("first" if is_same_cluster else "second")
        world.kubernetes.store.delete(CONSUMER_GROUP, "app", "billing")
        world.put(reset=EARLIEST)
        await world.reconcile()
        expected = [80, 80, 80] if is_same_cluster else [10, 10, 10]
        assert [*world.cluster.committed.values()] == expected

    in_world(story)


def test_another_reset_by_an_id_that_is_used_is_told(in_world: InWorld) -> None:
    """A second resource may inherit the group, and knows nothing of the ids of the first."""

    async def story(world: World) -> None:
        world.cluster.commit(20, 40, 70)
        world.put(reset=EARLIEST)
        await world.reconcile()
        world.cluster.commit(80, 80, 80)
        await remake(world, name="heir", reset={**EARLIEST, "to": "latest"})
        assert [*world.cluster.committed.values()] == [80, 80, 80]
        assert world.condition("Stalled", name="heir") == ("True", "IdAlreadyUsed")
        world.put("heir", reset={"id": "r2", "to": "latest"})
        await world.reconcile()
        assert [*world.cluster.committed.values()] == [100, 100, 100]

    in_world(story)


def test_a_deletion_does_not_run_again_when_its_resource_is_made_again(in_world: InWorld) -> None:
    async def story(world: World) -> None:
        world.cluster.commit(20, 40, 70)
        world.put(delete={"id": "d1"})
        await world.reconcile()
        assert dict(world.cluster.committed) == {}
        world.cluster.commit(5, 5, 5)
        await remake(world, delete={"id": "d1"})
        assert [*world.cluster.committed.values()] == [5, 5, 5]
        assert world.status()["delete"]["phase"] == "Done"

    in_world(story)


def test_nothing_is_done_before_it_is_noted(in_world: InWorld) -> None:
    """Whoever deletes the resource in between loses the status, and not the note."""

    async def story(world: World) -> None:
        world.cluster.commit(20, 40, 70)
        world.put(reset=EARLIEST)
        world.kubernetes.fail("PATCH", f"/configmaps/{LEDGER}", 422)
        with pytest.raises(InvalidError):
            await world.reconcile()
        assert world.cluster.done == []
        notes: list[str] = []
        world.cluster.before_action = lambda: notes.append(noted(world))
        await world.reconcile()
        assert "reset/r1" in notes[0]
        assert world.status()["reset"]["phase"] == "Done"

    in_world(story)


def test_a_group_without_operations_costs_no_write(in_world: InWorld) -> None:
    async def story(world: World) -> None:
        world.cluster.commit(20, 40, 70)
        world.put()
        await world.reconcile()
        assert noted(world) == ""

    in_world(story)


def test_what_is_held_back_before_anything_was_done_may_begin_again() -> None:
    """Members may come between the record and the act: then it waits, and was not done."""
    operation = Operation(
        id="r1", request="all topics to earliest; when active: Wait", phase=Phase.RUNNING
    )
    running = Operations(reset=replace(operation, before={PLACE: 4}, after={PLACE: 0}))
    waiting = Operations(reset=replace(operation, phase=Phase.WAITING))
    assert begun(running) == {"reset/r1": "all topics to earliest"}
    assert held_back(running) == frozenset()
    assert begun(waiting) == {}
    assert held_back(waiting) == {"reset/r1"}
    over = replace(waiting, completed=("reset/r1", "delete/d1"))
    assert begun(over) == {"reset/r1": "all topics to earliest", "delete/d1": ""}


def test_the_oldest_groups_go_where_there_is_no_room(
    in_world: InWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operation_ledger, "BYTES_MAX", 150)

    async def story(world: World) -> None:
        world.cluster.commit(20, 40, 70)
        world.put(reset=EARLIEST)
        await world.reconcile()
        ledger = ledger_of(world)
        for number in range(5):
            operation = Operation(id="r1", request="all topics to latest", phase=Phase.RUNNING)
            await ledger.note("app", f"other-{number}", Operations(reset=operation))
        assert '"other-4"' in noted(world)
        assert '"billing"' not in noted(world)

    in_world(story)


def test_many_groups_of_one_namespace_crowd_none_of_another_out(
    in_world: InWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reset of somebody else's group would be done again when its resource is made again."""
    monkeypatch.setattr(operation_ledger, "BYTES_MAX", 400)

    async def story(world: World) -> None:
        world.cluster.commit(20, 40, 70)
        world.put(reset=EARLIEST)
        await world.reconcile()
        ledger = ledger_of(world)
        operation = Operation(id="r1", request="all topics to latest", phase=Phase.RUNNING)
        for number in range(40):
            await ledger.note("crowd", f"other-{number}", Operations(reset=operation))
        assert '"billing"' in noted(world)
        assert '"other-39"' in noted(world)
        assert '"other-0"' not in noted(world)
        assert len(noted(world)) < 600
        world.restart_operator()
        world.cluster.commit(80, 80, 80)
        await remake(world, reset=EARLIEST)
        assert [*world.cluster.committed.values()] == [80, 80, 80]

    in_world(story)

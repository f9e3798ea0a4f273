"""A pass over the groups of a cluster, against an API server: statuses, conflicts, zero writes."""

from typing import Any

import pytest

from barnabas_client.errors import BrokerUnreachableError
from barnabas_operator.kubernetes.api import ConflictError, InvalidError
from barnabas_operator.kubernetes.kinds import CONSUMER_GROUP, EVENT
from barnabas_operator.work.key import Key, KeyKind
from tests.operator.reconcile.group.group_world import EARLIEST, InWorld, World, in_world

__all__ = ["in_world"]


def test_a_status_tells_what_the_group_is(in_world: InWorld) -> None:
    async def story(world: World) -> None:
        world.cluster.commit(20, 40, 70)
        world.cluster.join()
        world.put(thresholds={"lagRecords": 60, "lagSeconds": 3600})
        assert await world.reconcile() == pytest.approx(30, abs=0.1)
        status = world.status()
        told = {
            name: status[name]
            for name in ("state", "protocol", "members", "topics", "lag", "maxLag", "broker")
        }
        assert told == {
            "state": "Stable",
            "protocol": "classic",
            "members": 1,
            "topics": 1,
            "lag": 170,
            "maxLag": 80,
            "broker": "kafka/main",
        }
        assert status["observedGeneration"] == 1
        assert status["oldestUnread"] == "1970-01-01T00:16:40Z"
        assert status["recommendedReplicas"] == 3
        assert status["partitions"][1] == {
            "topic": "orders",
            "partition": 1,
            "lag": 60,
            "member": "app",
        }
        assert world.condition("Ready") == ("True", "Observed")
        assert world.condition("LagExceeded") == ("True", "OverThreshold")

    in_world(story)


def test_an_idle_group_costs_no_writes_however_long_it_lags(in_world: InWorld) -> None:
    """operator.md 3.9 and 8.14: idle means zero writes, also while the lag grows old."""

    async def story(world: World) -> None:
        world.cluster.commit(20, 40, 70)
        world.put(thresholds={"lagSeconds": 10})
        await world.reconcile()
        written = len(world.kubernetes.writes)
        assert written == 1
        for _ in range(4):
            world.clock.advance(15_000)
            await world.reconcile()
        assert len(world.kubernetes.writes) == written

    in_world(story)


def test_a_reset_is_recorded_before_it_is_done_and_its_story_is_in_the_status(
    in_world: InWorld,
) -> None:
    """operator.md 8.2: old and new of each partition, and an undo snapshot."""

    async def story(world: World) -> None:
        recorded: list[Any] = []
        world.cluster.commit(20, 40, 70)
        world.cluster.before_action = lambda: recorded.append(world.status()["reset"])
        world.put(reset=EARLIEST)
        await world.reconcile()
        (running,) = recorded
        assert (running["phase"], running["before"]) == ("Running", {"orders": "0:20,1:40,2:70"})
        status = world.status()
        assert status["reset"]["phase"] == "Done"
        assert status["reset"]["partitions"][0] == {
            "topic": "orders",
            "partition": 0,
            "old": 20,
            "new": 10,
        }
        assert status["undoSnapshot"] == {"id": "r1", "offsets": {"orders": "0:20,1:40,2:70"}}
        assert status["lag"] == 270
        world.put(reset=EARLIEST, undo={"id": "r1"})
        await world.reconcile()
        assert world.status()["undo"]["phase"] == "Done"
        events = [*world.kubernetes.store.objects[EVENT].values()]
        await world.reconcile()
        assert {(one["reason"], one["message"]) for one in events} == {
            ("ResetDone", "reset 'r1': 3 partitions changed"),
            ("UndoDone", "undo 'r1': 3 partitions changed"),
        }
        assert len(world.kubernetes.store.objects[EVENT]) == 2
        assert [*world.cluster.committed.values()] == [20, 40, 70]

    in_world(story)


def test_a_refused_reset_is_stalled_and_a_waiting_one_is_looked_at_soon(
    in_world: InWorld,
) -> None:
    async def story(world: World) -> None:
        world.cluster.commit(20, 40, 70)
        world.cluster.join()
        world.put(reset=EARLIEST)
        assert await world.reconcile() == pytest.approx(30, abs=0.1)
        assert world.condition("Stalled") == ("True", "ResetRefused")
        assert world.condition("Ready") == ("False", "ResetRefused")
        world.put(reset={**EARLIEST, "whenActive": "Wait"})
        assert await world.reconcile() == pytest.approx(5, abs=0.1)
        assert world.condition("Reconciling") == ("True", "ResetWaiting")
        world.cluster.leave()
        assert await world.reconcile() == pytest.approx(30, abs=0.1)
        assert world.condition("Ready") == ("True", "Observed")

    in_world(story)


@pytest.mark.parametrize(("code", "error"), [(409, ConflictError), (422, InvalidError)])
def test_a_status_that_cannot_be_written_stops_the_reset_before_anything_is_done(
    in_world: InWorld, code: int, error: type[Exception]
) -> None:
    """Issue 6: 409 and 422 injected; nothing is done that was not recorded, nothing is stuck."""

    async def story(world: World) -> None:
        world.cluster.commit(20, 40, 70)
        world.put(reset=EARLIEST)
        world.kubernetes.fail("PATCH", "/status$", code)
        with pytest.raises(error):
            await world.reconcile()
        assert world.cluster.done == []
        await world.reconcile()
        assert world.status()["reset"]["phase"] == "Done"

    in_world(story)


def test_the_oldest_of_two_resources_is_in_charge(in_world: InWorld) -> None:
    async def story(world: World) -> None:
        world.cluster.commit(20, 40, 70)
        world.put("a-first", reset={"id": "a", "to": "latest"})
        world.put("b-second", reset={"id": "b", "to": "earliest"})
        await world.reconcile()
        assert world.condition("Ready", name="a-first") == ("True", "Observed")
        assert world.condition("Stalled", name="b-second") == ("True", "ResourceConflict")
        assert set(world.cluster.committed.values()) == {100}

    in_world(story)


def test_a_resource_that_cannot_be_meant_is_told_so_and_the_others_go_on(
    in_world: InWorld,
) -> None:
    async def story(world: World) -> None:
        world.put("bad", reset={"id": "r", "to": "earliest", "offset": 5})
        world.put("good")
        await world.reconcile()
        assert world.condition("Stalled", name="bad") == ("True", "InvalidSpec")
        assert world.condition("Ready", name="good") == ("True", "NoSuchGroup")

    in_world(story)


@pytest.mark.parametrize(
    "hostile",
    [
        {"reset": {"id": "r", "to": "timestamp", "timestamp": "9999-12-31T23:59:59.9996Z"}},
        {"reset": {"id": "r", "to": "nowhere"}},
    ],
)
def test_one_group_that_cannot_be_meant_stops_no_other(
    in_world: InWorld, hostile: dict[str, Any]
) -> None:
    """Whoever may make a ConsumerGroup anywhere would have all of its cluster left alone."""

    async def story(world: World) -> None:
        world.put("hostile", **hostile)
        world.put("other", thresholds={"lagRecords": 1})
        await world.reconcile()
        assert world.condition("Stalled", name="hostile")[0] == "True"
        assert world.condition("Ready", name="other") == ("True", "NoSuchGroup")

    in_world(story)


def test_a_fault_of_ours_with_one_group_is_told_on_it_and_stops_no_other(
    in_world: InWorld,
) -> None:
    """What nobody has thought of is raised, after the others were looked after."""

    async def story(world: World) -> None:
        def fail() -> None:
            raise ArithmeticError("nobody thought of this")

        world.cluster.commit(20)
        world.put("first", reset={"id": "r1", "to": "earliest"})
        world.put("second")
        world.cluster.before_action = fail
        with pytest.raises(ArithmeticError):
            await world.reconcile()
        assert world.condition("Stalled", name="first") == ("True", "InternalError")
        assert world.condition("Stalled", name="second") == ("True", "ResourceConflict")

    in_world(story)


def test_a_record_of_no_moment_stops_no_group(in_world: InWorld) -> None:
    """Producers choose the timestamps of records, also such as no calendar has."""

    async def story(world: World) -> None:
        world.cluster.commit(20)
        world.cluster.record_time_ms = 2**62
        world.put()
        await world.reconcile()
        assert world.status()["lag"] == 80
        assert "oldestUnread" not in world.status()

    in_world(story)


def test_a_cluster_that_is_away_for_long_makes_the_status_unknown(in_world: InWorld) -> None:
    """Unknown stays unknown: numbers of before are not claimed, nor is there a zero."""

    async def story(world: World) -> None:
        world.cluster.commit(20, 40, 70)
        world.put()
        await world.reconcile()
        world.admins.is_away = True
        with pytest.raises(BrokerUnreachableError):
            await world.reconcile()
        assert world.status()["lag"] == 170
        world.admins.unreachable = 61
        with pytest.raises(BrokerUnreachableError):
            await world.reconcile()
        assert world.status()["state"] == "Unknown"
        assert "lag" not in world.status()
        assert world.condition("Ready") == ("Unknown", "ClusterUnreachable")
        world.admins.is_away = False
        await world.reconcile()
        assert world.status()["lag"] == 170

    in_world(story)


def test_a_resource_without_a_broker_is_told_which_are_there(in_world: InWorld) -> None:
    async def story(world: World) -> None:
        world.put("lost", namespace="kafka", brokerRef=None)
        world.put_broker("other")
        await world.reconciler.reconcile(Key(kind=KeyKind.GROUPS, namespace="kafka", name=""))
        which = {"name": "lost", "namespace": "kafka"}
        assert world.condition("Stalled", **which) == ("True", "BrokerNotChosen")
        world.put(brokerRef={"name": "gone", "namespace": "kafka"})
        await world.reconciler.reconcile(Key(kind=KeyKind.GROUPS, namespace="kafka", name="gone"))
        assert world.condition("Stalled") == ("True", "BrokerNotFound")
        annotations = {"barnabas.dev/allowed-namespaces": "team-a"}
        world.put_broker("other", annotations=annotations)
        world.put(brokerRef={"name": "other", "namespace": "kafka"})
        await world.reconciler.reconcile(Key(kind=KeyKind.GROUPS, namespace="kafka", name="other"))
        assert world.condition("Stalled") == ("True", "NamespaceNotAllowed")

    in_world(story)


def test_groups_are_shown_that_nobody_declared_and_only_to_be_looked_at(in_world: InWorld) -> None:
    """operator.md 8.1: opt-in; what is asked of such an object is refused with a way out."""

    async def story(world: World) -> None:
        world.cluster.commit(20, 40, 70)
        assert await world.reconcile() is None
        world.put_broker("main", annotations={"barnabas.dev/discover-groups": "*"})
        assert await world.reconcile() == pytest.approx(30, abs=0.1)
        (made,) = world.kubernetes.store.objects[CONSUMER_GROUP].values()
        which = {"namespace": "kafka", "name": made["metadata"]["name"]}
        await world.reconcile()
        assert world.status(**which)["lag"] == 170
        written = len(world.kubernetes.writes)
        await world.reconcile()
        assert len(world.kubernetes.writes) == written
        world.kubernetes.change(CONSUMER_GROUP, patch={"spec": {"reset": EARLIEST}}, **which)
        await world.reconcile()
        assert world.condition("Stalled", **which) == ("True", "ReadOnly")
        assert world.cluster.done == []
        world.put_broker("main", annotations={})
        await world.reconcile()
        assert not world.kubernetes.store.objects[CONSUMER_GROUP]

    in_world(story)

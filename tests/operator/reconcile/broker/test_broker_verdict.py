"""What the status of a Broker tells people and tools: Ready, Progressing, Degraded, Paused."""

import asyncio
from typing import Any

import pytest

from barnabas_operator.kubernetes.kinds import POD, SERVICE
from tests.operator.reconcile.broker.broker_world import NAME, NAMESPACE, BrokerWorld
from tests.support.kstatus import argo_health, kstatus, kubectl_waits


def settled(**spec: Any) -> BrokerWorld:
    """Three brokers that serve a topic."""
    world = BrokerWorld(3, **spec)
    asyncio.run(world.settle())
    world.add_topic("orders", [0, 1, 2])
    asyncio.run(world.settle())
    return world


def told(world: BrokerWorld) -> dict[str, tuple[str, str]]:
    """Status and reason of each condition."""
    return {
        one["type"]: (one["status"], one["reason"])
        for one in world.status["conditions"]
        if one["type"] != "Warning"
    }


def verdicts(world: BrokerWorld) -> tuple[str, str, bool]:
    """What Flux, Argo CD and `kubectl wait` make of it."""
    return kstatus(world.broker), argo_health(world.broker)[0], kubectl_waits(world.broker)


def test_a_broker_that_serves_is_ready_for_every_tool() -> None:
    """Issue 17: Progressing and Degraded are there as well, and say that nothing is."""
    world = settled()
    assert told(world) == {
        "Ready": ("True", "AllBrokersReady"),
        "Progressing": ("False", "AllBrokersReady"),
        "Degraded": ("False", "AsExpected"),
        "Insecure": ("True", "SecurityIsOff"),
    }
    assert verdicts(world) == ("Current", "Healthy", False)
    generation = world.broker["metadata"]["generation"]
    assert {one["observedGeneration"] for one in world.status["conditions"]} == {generation}


def test_a_broker_that_comes_up_for_the_first_time_progresses_and_is_not_degraded() -> None:
    """Argo CD gives up a sync that is Degraded."""
    world = BrokerWorld(3)
    seen = set()
    while not world.condition("Ready") or world.condition("Ready")["status"] != "True":
        asyncio.run(world.reconcile())
        if world.condition("Ready")["status"] != "True":
            seen.add((*verdicts(world), told(world)["Progressing"][0], told(world)["Degraded"][0]))
        world.tick()
    assert seen == {("InProgress", "Progressing", True, "True", "False")}


def test_a_rolling_restart_progresses_and_is_not_degraded() -> None:
    """A broker that is restarted by plan is missed by nobody."""
    world = settled()
    world.annotate("restart", "now")
    seen = set()
    for _ in range(60):
        asyncio.run(world.reconcile())
        seen.add((*verdicts(world), told(world)["Degraded"][0]))
        world.tick()
    assert sorted(world.restarted) == [0, 1, 2]
    assert seen == {
        ("InProgress", "Progressing", True, "False"),
        ("Current", "Healthy", False, "False"),
    }


def test_no_generation_is_ready_before_its_children_are_written() -> None:
    """Flux went on with what the spec before had made of it."""
    world = settled()
    world.change({"spec": {"resources": {"requests": {"cpu": "1"}}, "updatePolicy": "Paused"}})
    assert verdicts(world) == ("InProgress", "Progressing", True)
    world.change({"spec": {"listeners": {"external": EXTERNAL}, "updatePolicy": None}})
    world.change({"spec": {"resources": None}})
    asyncio.run(world.reconcile())
    assert world.store.get(SERVICE, NAMESPACE, f"{NAME}-broker-0")
    assert verdicts(world) == ("InProgress", "Progressing", True)
    asyncio.run(world.settle())
    assert verdicts(world) == ("Current", "Healthy", False)


EXTERNAL = {"type": "NodePort", "advertisedHost": "{id}.example.com"}


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("controller", "NoController"),
        ("answer", "BrokersUnreachable"),
        ("broker", "BrokersUnreachable"),
        ("leader", "PartitionsOffline"),
    ],
)
def test_what_served_and_does_not_any_more_is_degraded(fault: str, reason: str) -> None:
    """Row 6 of the findings: all pods are ready, and the cluster is not."""
    world = settled()
    world.is_available = False
    if fault == "controller":
        world.members = {7, 8, 9}  # nobody has a majority of them
        world.tick()
    elif fault == "answer":
        world.is_reachable = False
    elif fault == "broker":
        world.hold_down(2)
        world.tick()
    else:
        world.add_topic("lost", [5], in_sync_min=1)
        world.partitions[-1].in_sync = set()
    asyncio.run(world.reconcile())
    assert told(world)["Degraded"] == ("True", reason)
    assert argo_health(world.broker)[0] == "Degraded"
    assert kubectl_waits(world.broker, "Degraded") is False
    if fault != "leader":
        assert kstatus(world.broker) == "InProgress"
        assert kubectl_waits(world.broker)


def test_a_broker_that_cannot_become_what_it_declares_has_failed() -> None:
    """Stalled: nothing comes by itself."""
    world = settled()
    world.change({"spec": {"config": {"log.retentoin": 1}}})
    asyncio.run(world.settle())
    assert verdicts(world) == ("Failed", "Degraded", True)
    assert told(world)["Progressing"][0] == "False"
    world.change({"spec": {"config": {"node.id": 1, "log.retentoin": None}}})
    asyncio.run(world.reconcile())
    assert told(world)["Ready"] == ("False", "InvalidSpec")
    assert told(world)["Degraded"] == ("False", "AsExpected")
    assert verdicts(world) == ("Failed", "Degraded", True)


def test_a_paused_broker_says_so_and_is_ready_only_if_nothing_waits() -> None:
    """By reading: it said Ready with the new generation, whatever was not done of it."""
    world = settled()
    world.change({"spec": {"paused": True}})
    asyncio.run(world.settle())
    assert told(world)["Paused"] == ("True", "Paused")
    assert verdicts(world) == ("Current", "Healthy", False)
    for change, waiting in (
        ({"image": "good:2"}, "restart brokers 0, 1, 2"),
        ({"image": None, "config": {"log.retention.ms": 1}}, "change settings log.retention.ms"),
        ({"config": None, "replicas": 4}, "apply "),
        ({"replicas": 3, "listeners": {"external": EXTERNAL}}, "restart brokers 0, 1, 2"),
    ):
        world.change({"spec": change})
        asyncio.run(world.settle())
        assert told(world)["Ready"] == ("False", "Paused")
        message = world.condition("Stalled")["message"]
        assert message.startswith(f"waits for the end of the pause: {waiting}")
        assert verdicts(world) == ("Failed", "Suspended", True)
    world.change({"spec": {"paused": None}})
    asyncio.run(world.settle())
    assert "Paused" not in told(world)
    assert verdicts(world) == ("Current", "Healthy", False)


def test_a_paused_broker_that_lost_its_control_plane_is_not_ready() -> None:
    """A pause hides nothing of what the cluster is."""
    world = settled(paused=False)
    world.annotate("paused", "true")
    asyncio.run(world.settle())
    assert told(world)["Ready"][0] == "True"
    world.members, world.is_available = {7, 8, 9}, False
    world.tick()
    asyncio.run(world.reconcile())
    assert told(world)["Ready"] == ("False", "NoController")
    assert told(world)["Paused"] == ("True", "Paused")


@pytest.mark.parametrize(
    ("resource", "health"),
    [
        ({}, "Progressing"),
        ({"status": {"observedGeneration": -1}}, "Progressing"),
        (
            {
                "status": {
                    "observedGeneration": 1,
                    "conditions": [{"type": "Ready", "status": "True"}],
                }
            },
            "Progressing",
        ),
        ({"metadata": {"generation": 1, "deletionTimestamp": "2030-01-01"}}, "Progressing"),
    ],
)
def test_what_the_operator_has_not_looked_at_is_no_success(
    resource: dict[str, Any], health: str
) -> None:
    """Kstatus takes what says nothing for done, hence the default of the schema."""
    given = {"metadata": {"generation": 2}, **resource}
    assert argo_health(given)[0] == health


def test_a_pod_that_was_lost_is_no_plan_of_the_operator() -> None:
    """Degraded goes again with the reason for it."""
    world = settled()
    world.is_available = False
    world.store.delete(POD, NAMESPACE, f"{NAME}-1")
    world.tick()
    asyncio.run(world.reconcile())
    assert told(world)["Degraded"] == ("True", "BrokersUnreachable")
    asyncio.run(world.settle())
    assert told(world)["Degraded"] == ("False", "AsExpected")

"""Brokers that never came up, or do not come back, and that are wanted no more."""

import asyncio
import contextlib
from typing import Any

from barnabas_operator.kubernetes.api import ForbiddenError, KubernetesError, Object
from barnabas_operator.kubernetes.kinds import PERSISTENT_VOLUME_CLAIM, STATEFUL_SET, Kind
from tests.operator.reconcile.broker.broker_world import (
    BROKEN_IMAGE,
    NAME,
    NAMESPACE,
    BrokerWorld,
    settled,
)
from tests.support.fake_kubernetes_store import merge_patched


def run(world: BrokerWorld, ticks: int) -> None:
    for _ in range(ticks):
        asyncio.run(world.reconcile())
        world.tick()


def size(world: BrokerWorld) -> int:
    found: int = world.store.get(STATEFUL_SET, NAMESPACE, NAME)["spec"]["replicas"]
    return found


def test_two_brokers_that_never_started_can_be_taken_back() -> None:
    """Found by reading, 12: each waited for the other, which was to go as well."""
    world = settled()
    world.held_down = {3, 4}
    world.change({"spec": {"replicas": 5}})
    run(world, 20)
    assert size(world) == 5
    world.change({"spec": {"replicas": 3}})
    asyncio.run(world.settle())
    assert size(world) == 3
    assert world.condition("Ready")["status"] == "True"


def test_a_claim_that_was_never_bound_is_noted_when_its_broker_is_taken_back() -> None:
    """Else a start from none begins with the brokers that never were."""
    world = settled()
    world.held_down = {3}
    world.change({"spec": {"replicas": 4}})
    run(world, 10)
    pending = {"status": {"phase": "Pending"}}
    world.change({"spec": {"replicas": 3}})
    for _ in range(30):
        world.store.update(
            PERSISTENT_VOLUME_CLAIM,
            NAMESPACE,
            f"data-{NAME}-3",
            lambda old: merge_patched(old, pending),
            is_status=True,
        )
        run(world, 1)
    (noted,) = (
        one["metadata"]["annotations"]
        for one in world.claims()
        if one["metadata"]["name"] == f"data-{NAME}-3"
    )
    assert noted == {"barnabas.dev/decommissioned": "true"}


def test_a_broker_whose_restart_hangs_can_be_scaled_away() -> None:
    """Found by reading, 13: its own restart held up its going."""
    world = settled(4)
    world.is_available = False
    world.annotate("restart", "1")
    for _ in range(200):
        run(world, 1)
        if (world.status.get("restarting") or {}).get("broker") == 3:
            world.held_down.add(3)
            break
    run(world, 20)
    assert world.status["restarting"]["broker"] == 3
    world.change({"spec": {"replicas": 3}})
    asyncio.run(world.settle())
    assert size(world) == 3
    assert world.condition("Ready")["status"] == "True"


def test_one_refused_service_keeps_no_pod_that_cannot_start() -> None:
    """Found by reading, 14: a quota on Services kept a wrong image for ever."""
    world = settled()
    world.is_available = False
    accept = world.api.apply
    refused: list[str] = []

    async def apply(manifest: Object) -> Object:
        if manifest["kind"] == "Service" and "-external-" in manifest["metadata"]["name"]:
            refused.append(manifest["metadata"]["name"])
            raise ForbiddenError("exceeded quota: services.nodeports", code=403)
        return await accept(manifest)

    def run_refused(ticks: int) -> None:
        for _ in range(ticks):
            with contextlib.suppress(KubernetesError):
                asyncio.run(world.reconcile())
            world.tick()

    world.change({"spec": {"image": BROKEN_IMAGE}})
    run_refused(20)
    assert len(world.ready_ids()) == 2
    world.api.apply = apply  # type: ignore[method-assign]
    external = {"type": "NodePort", "advertisedHost": "b{id}"}
    world.change({"spec": {"image": "good:1", "listeners": {"external": external}}})
    before = len(world.restarted)
    run_refused(40)
    assert world.ready_ids() == {0, 1, 2}
    # Brokers that serve wait for what was refused: they may need it.
    assert len(world.restarted) == before + 1
    assert "exceeded quota" in world.condition("Ready")["message"]
    assert refused
    world.api.apply = accept  # type: ignore[method-assign]
    run_refused(100)
    assert world.condition("Ready")["status"] == "True"
    assert len(world.restarted) > before + 1


def test_while_what_pods_are_made_from_is_refused_none_is_replaced() -> None:
    """It would be made of the same again, and again."""
    world = settled()
    world.is_available = False
    world.change({"spec": {"image": BROKEN_IMAGE}})
    run(world, 20)
    accept = world.api.apply

    async def apply(manifest: Object) -> Object:
        if manifest["kind"] == "StatefulSet":
            raise ForbiddenError("not today", code=403)
        return await accept(manifest)

    world.api.apply = apply  # type: ignore[method-assign]
    world.change({"spec": {"image": "good:1"}})
    before = len(world.restarted)
    for _ in range(20):
        with contextlib.suppress(KubernetesError):
            asyncio.run(world.reconcile())
        world.tick()
    assert len(world.restarted) == before


def test_none_wanted_is_not_ready_while_all_still_run() -> None:
    """Found by reading, 17."""
    world = settled()
    world.is_available = False
    world.change({"spec": {"replicas": 0}})
    while True:
        asyncio.run(world.reconcile())
        if world.condition("Ready")["status"] == "True":
            break
        world.tick()
    assert not world.pods()


def test_brokers_that_stop_are_named_while_they_do() -> None:
    world = settled()
    world.is_available = False
    world.change({"spec": {"replicas": 0}})
    asyncio.run(world.reconcile())
    asyncio.run(world.reconcile())
    assert world.condition("Ready")["message"] == "brokers 0, 1, 2 stop"


def test_a_claim_that_may_not_grow_keeps_nothing_else_waiting() -> None:
    """A quota, or volumes of no class, refused a larger size: pods with a wrong image stayed as
    they were, and no setting changed, as long as the size was declared.
    """
    world = settled()
    world.is_available = False
    accept, refused = world.api.patch, "exceeded quota: requests.storage"

    async def patch(kind: Kind, *where: Any, **how: Any) -> Object:
        if kind is PERSISTENT_VOLUME_CLAIM and "spec" in where[2]:
            raise ForbiddenError(refused, code=403)
        return await accept(kind, *where, **how)

    def run_refused(ticks: int) -> None:
        for _ in range(ticks):
            with contextlib.suppress(KubernetesError):
                asyncio.run(world.reconcile())
            world.tick()

    world.change({"spec": {"image": BROKEN_IMAGE}})
    run_refused(20)
    assert len(world.ready_ids()) == 2
    world.api.patch = patch  # type: ignore[method-assign]
    config = {"log.retention.ms": "5"}
    world.change({"spec": {"image": "good:1", "storage": {"size": "20Gi"}, "config": config}})
    run_refused(40)
    assert world.ready_ids() == {0, 1, 2}
    assert world.overrides == config
    assert world.condition("Ready")["status"] == "False"
    assert refused in world.condition("Ready")["message"]
    world.change({"spec": {"storage": {"size": "10Gi"}}})
    run_refused(40)
    assert world.condition("Ready")["status"] == "True"


def test_a_stateful_set_that_was_lowered_by_hand_leaves_no_broker_with_partitions_behind() -> None:
    """Somebody declares fewer brokers, and scales the StatefulSet as well to have it sooner."""
    world = settled(4)
    world.is_available = False
    world.add_topic("alone", [3], in_sync_min=1)
    world.change({"spec": {"replicas": 3}})
    world.store.update(
        STATEFUL_SET,
        NAMESPACE,
        NAME,
        lambda old: merge_patched(old, {"spec": {"replicas": 3}}),
    )
    run(world, 6)
    assert set(world.pods()) == {0, 1, 2, 3}
    assert world.condition("Ready")["status"] == "False"
    asyncio.run(world.settle())
    assert size(world) == 3
    assert all(one.in_sync == set(one.replicas) <= {0, 1, 2} for one in world.partitions)
    assert world.registered == {0, 1, 2}
    assert world.condition("Ready")["status"] == "True"


def test_a_stateful_set_that_was_lowered_by_hand_does_not_end_the_control_plane() -> None:
    """Three members of the metadata log became one that alone is no majority, for good."""
    world = settled()
    world.is_available = False
    world.partitions.clear()
    patch = {"spec": {"replicas": 1}}
    world.change(patch)
    world.store.update(STATEFUL_SET, NAMESPACE, NAME, lambda old: merge_patched(old, patch))
    asyncio.run(world.settle())
    assert size(world) == 1
    assert (world.members, world.registered, world.controller) == ({0}, {0}, 0)
    assert world.condition("Ready")["status"] == "True"

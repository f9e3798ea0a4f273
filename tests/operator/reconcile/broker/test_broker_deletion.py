"""The end of a Broker whose claims go with it, and of one whose claims stay."""

import asyncio
from typing import Any

import pytest

from barnabas_operator.kubernetes.kinds import (
    BROKER,
    CONFIG_MAP,
    LEASE,
    NAMESPACE,
    PERSISTENT_VOLUME_CLAIM,
    STATEFUL_SET,
)
from barnabas_operator.kubernetes.objects import finalizers_of
from barnabas_operator.reconcile.broker.deletion_plan import FINALIZER, Remains, Step, plan_end
from tests.operator.reconcile.broker.broker_world import NAME, BrokerWorld, settled
from tests.operator.reconcile.broker.broker_world import NAMESPACE as PLACE
from tests.operator.reconcile.broker.store_api import Killed
from tests.support.fake_kubernetes_store import merge_patched

PASSES_MAX = 60
ARBITER = f"{NAME}-arbiter"


def going(when: str = "WhenDeleted", *finalizers: str) -> dict[str, Any]:
    return {
        "metadata": {
            "name": NAME,
            "namespace": PLACE,
            "uid": "u1",
            "deletionTimestamp": "2026-11-24T12:00:00Z",
            "finalizers": [FINALIZER, *finalizers],
        },
        "spec": {"storage": {"deleteClaim": when}},
    }


def child(name: str = NAME, owner: str = "u1", **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "ownerReferences": [{"uid": owner}], **metadata}}


GONE = {"deletionTimestamp": "2026-11-24T12:00:00Z", "finalizers": ["kubernetes.io/pvc-protection"]}


@pytest.mark.parametrize(
    ("remains", "step"),
    [
        (Remains(stateful_set=child(), claims=[child("data-demo-0")]), Step.STOP_BROKERS),
        (Remains(stateful_set=child(**GONE), claims=[child("data-demo-0")]), Step.WAIT),
        (Remains(stateful_set=None, pods=[child("demo-0")]), Step.STOP_BROKERS),
        (Remains(stateful_set=None, pods=[child("demo-0", **GONE)]), Step.WAIT),
        (Remains(stateful_set=None, claims=[child("data-demo-0")]), Step.DELETE_CLAIMS),
        (
            Remains(stateful_set=None, claims=[child("data-demo-0", **GONE)], has_record=True),
            Step.WAIT,
        ),
        (Remains(stateful_set=None, has_record=True), Step.FORGET_CLUSTER),
        (Remains(stateful_set=None), Step.REMOVE_FINALIZER),
        # Nothing is deleted by us of what somebody else sees to, or has set free.
        (Remains(stateful_set=child(), is_namespace_going=True), Step.REMOVE_FINALIZER),
        (Remains(stateful_set=child(owner="another")), Step.REMOVE_FINALIZER),
    ],
)
def test_brokers_go_first_then_claims_then_the_record_then_the_broker(
    remains: Remains, step: Step
) -> None:
    """Decision 0024: the Lease never goes while a claim is there."""
    assert plan_end(going(), remains).step is step


def test_a_deletion_that_leaves_the_children_alone_leaves_the_claims_alone() -> None:
    """`kubectl delete --cascade=orphan`: the brokers go on running."""
    found = Remains(stateful_set=child(), claims=[child("data-demo-0")], has_record=True)
    assert plan_end(going("WhenDeleted", "orphan"), found).step is Step.REMOVE_FINALIZER


@pytest.mark.parametrize("when", ["Never", "WhenScaled"])
def test_who_thinks_better_of_it_keeps_the_claims(when: str) -> None:
    """Also when the Broker is being deleted already."""
    found = Remains(stateful_set=child(), claims=[child("data-demo-0")], has_record=True)
    assert plan_end(going(when), found).step is Step.REMOVE_FINALIZER


def test_a_claim_that_does_not_go_is_named_with_what_holds_it() -> None:
    """Somebody's debugging pod may mount it."""
    plan = plan_end(going(), Remains(stateful_set=None, claims=[child("data-demo-0", **GONE)]))
    assert plan.waiting_on == "claim data-demo-0 goes, which kubernetes.io/pvc-protection may hold"


def world_with_data(when: str) -> BrokerWorld:
    """Brokers with two volumes, the Lease by which they agree on a leader, and a ledger."""
    world = settled(
        storage={"deleteClaim": when, "volumes": [{"name": "data"}, {"name": "more"}]},
    )
    world.is_available = False
    record = {"barnabas.dev/arbiter-version": "1"}
    world.store.create(LEASE, PLACE, {"metadata": {"name": ARBITER, "annotations": record}})
    labels = {"app.kubernetes.io/managed-by": "barnabas-operator"}
    ledger = {"metadata": {"name": f"{NAME}-group-operations", "labels": labels}}
    world.store.create(CONFIG_MAP, PLACE, ledger)
    asyncio.run(world.settle())
    world.api.writes.clear()
    return world


def end(world: BrokerWorld) -> None:
    """Delete the Broker and let the operator work until it is gone."""
    if (PLACE, NAME) in world.store.objects[BROKER]:
        world.store.delete(BROKER, PLACE, NAME)
    for _ in range(PASSES_MAX):
        asyncio.run(world.reconcile())
        world.tick()
        if (PLACE, NAME) not in world.store.objects[BROKER]:
            return
    raise AssertionError(f"still there: {world.status}")


def names_of(world: BrokerWorld, kind: Any) -> set[str]:
    return {name for where, name in world.store.objects[kind] if where == PLACE}


@pytest.mark.parametrize("when", ["WhenDeleted", "Always"])
def test_all_that_a_broker_kept_goes_with_it_where_that_is_asked_for(when: str) -> None:
    """Claims after the pods, the Lease after the claims; the next Broker begins anew."""
    world = world_with_data(when)
    assert FINALIZER in finalizers_of(world.broker)
    end(world)
    assert not world.claims()
    assert not world.pods()
    assert not names_of(world, LEASE)
    assert not names_of(world, CONFIG_MAP)
    deleted = [one for one in world.api.writes if one.startswith("delete")]
    first_claim = next(n for n, one in enumerate(deleted) if "PersistentVolumeClaim" in one)
    assert deleted[0] == f"delete StatefulSet {NAME}"
    assert deleted.index(f"delete Lease {ARBITER}") > first_claim
    last_claim = max(n for n, one in enumerate(deleted) if "PersistentVolumeClaim" in one)
    assert deleted.index(f"delete Lease {ARBITER}") > last_claim
    # The policy of the API server lets the Lease go only if it is said that it may.
    patched = world.api.writes.index(f"patch Lease {ARBITER}")
    assert patched < world.api.writes.index(f"delete Lease {ARBITER}")


@pytest.mark.parametrize("when", ["Never", "WhenScaled"])
def test_claims_and_lease_stay_by_default(when: str) -> None:
    """operator.md 3.2: deleting a resource wipes no data."""
    world = world_with_data(when)
    assert finalizers_of(world.broker) == ()
    end(world)
    assert len(world.claims()) == 6
    assert names_of(world, LEASE) == {ARBITER}


def test_the_finalizer_follows_what_is_declared() -> None:
    """It is there for one purpose; others' are none of ours."""
    world = world_with_data("Always")
    theirs = {"metadata": {"finalizers": [FINALIZER, "example.org/theirs"]}}
    world.store.update(BROKER, PLACE, NAME, lambda old: merge_patched(old, theirs))
    world.change({"spec": {"storage": {"deleteClaim": "WhenScaled"}}})
    asyncio.run(world.settle())
    assert finalizers_of(world.broker) == ("example.org/theirs",)


def test_a_namespace_that_goes_is_not_held_up() -> None:
    """It takes everything along by itself."""
    world = world_with_data("Always")
    world.store.delete(NAMESPACE, "", PLACE)
    asyncio.run(world.reconcile())
    assert (PLACE, NAME) not in world.store.objects[BROKER]


def test_a_claim_that_somebody_holds_keeps_the_broker_and_the_lease() -> None:
    """With the Lease gone and a claim left, its brokers could never agree on a leader again."""
    world = world_with_data("Always")
    held = {"metadata": {"finalizers": ["kubernetes.io/pvc-protection"]}}
    for name in (f"data-{NAME}-1",):
        world.store.update(
            PERSISTENT_VOLUME_CLAIM, PLACE, name, lambda old: merge_patched(old, held)
        )
    with pytest.raises(AssertionError, match="still there"):
        end(world)
    assert names_of(world, LEASE) == {ARBITER}
    assert "claim data-demo-1 goes" in world.condition("Reconciling")["message"]
    freed = {"metadata": {"finalizers": None}}
    world.store.update(
        PERSISTENT_VOLUME_CLAIM, PLACE, f"data-{NAME}-1", lambda old: merge_patched(old, freed)
    )
    end(world)
    assert not names_of(world, LEASE)


@pytest.mark.parametrize("is_done_first", [False, True])
def test_an_operator_that_dies_at_any_write_ends_a_broker_all_the_same(
    is_done_first: bool,
) -> None:
    """At each write the rule holds: no claim is there without the Lease."""
    for writes in range(16):
        world = world_with_data("Always")
        world.store.delete(BROKER, PLACE, NAME)
        world.api.writes_left, world.api.is_done_before_death = writes, is_done_first
        try:
            for _ in range(PASSES_MAX):
                asyncio.run(world.reconcile())
                world.tick()
        except Killed:
            pass
        assert not world.claims() or names_of(world, LEASE)
        world.start_operator()
        end(world)
        assert not world.claims()
        assert not names_of(world, LEASE)


def test_a_broker_deleted_while_its_stateful_set_is_made_again_leaves_no_pod_behind() -> None:
    """Pods that were set free for the new StatefulSet have no owner to go with."""
    world = world_with_data("WhenDeleted")
    world.store.delete(STATEFUL_SET, PLACE, NAME)
    end(world)
    assert not world.pods()
    assert not world.claims()

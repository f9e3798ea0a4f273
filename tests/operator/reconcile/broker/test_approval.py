"""What an approval lets happen, and that it lets nothing else happen."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from barnabas_operator.broker_spec import BrokerSpec, UpdatePolicy
from barnabas_operator.reconcile.broker.broker_plan import BrokerPlan, plan_broker
from barnabas_operator.reconcile.broker.observed import (
    AnnouncedPlan,
    Observed,
    PodView,
    Remembered,
)
from tests.operator.reconcile.broker.broker_world import settled
from tests.operator.reconcile.broker.views import (
    IMAGE,
    NOW,
    SPEC,
    cluster,
    observed,
    partition,
    pod,
)

CAREFUL = replace(SPEC, update_policy=UpdatePolicy.ON_APPROVAL)
ORDERS = partition("orders", [0, 1, 2])
NEWER = replace(CAREFUL, image="good:2")


def seen(announced: AnnouncedPlan | None = None, *pods: PodView) -> Observed:
    found = observed(pods or None, view=cluster(ORDERS))
    return replace(found, remembered=Remembered(announced=announced))


def plan(spec: BrokerSpec, there: Observed) -> BrokerPlan:
    return plan_broker(spec, there, now=NOW, default_image=IMAGE)


def approved(spec: BrokerSpec, told: BrokerPlan) -> BrokerSpec:
    return replace(spec, approved_hash=told.announced.hash)


def test_an_approval_lasts_for_the_whole_roll_that_it_is_of() -> None:
    told = plan(NEWER, seen())
    spec = approved(NEWER, told)
    assert [one.node_id for one in plan(spec, seen(told.announced)).roll.restarts] == [1]
    new = {"uid": "another", "revision": {**pod(1).revision, "image": "good:2"}}
    later = plan(spec, seen(told.announced, pod(0), pod(1, **new), pod(2)))
    assert later.announced == told.announced
    assert [one.node_id for one in later.roll.restarts] == [2]


@pytest.mark.parametrize(
    "change",
    [
        {"parked": frozenset({1})},
        {"image": "good:3"},
        {"config": {"num.recovery.threads": "3"}},
        {"pod_template": replace(SPEC.pod_template, image_pull_secrets=({"name": "new"},))},
        {"restart": "again"},
    ],
)
def test_what_comes_after_an_approval_waits_for_another(change: dict[str, Any]) -> None:
    """Found by reading, 16: the hash was of the pods' revision and the settings alone."""
    told = plan(NEWER, seen())
    new = {**pod(0).revision, "image": "good:2"}
    done = [pod(one, uid=f"new-{one}", revision=new) for one in range(3)]
    spec = approved(NEWER, told)
    assert plan(spec, seen(told.announced, *done)).roll.needs == ()
    later = plan(replace(spec, **change), seen(told.announced, *done))
    assert later.roll.needs
    assert later.roll.restarts == ()
    assert later.roll.waiting_on == f"approval of plan {later.announced.hash}"
    assert later.announced.hash != told.announced.hash


def test_nothing_is_approved_before_there_is_anything_to_approve() -> None:
    spec = approved(CAREFUL, plan(CAREFUL, seen()))
    asked = pod(1, restart_asked="now")
    assert plan(spec, seen(None, pod(0), asked, pod(2))).roll.restarts == ()


def test_a_pod_that_was_restarted_is_not_restarted_by_the_same_approval() -> None:
    asked = seen(None, pod(0), pod(1, restart_asked="now"), pod(2))
    told = plan(CAREFUL, asked)
    spec = approved(CAREFUL, told)
    again = pod(1, restart_asked="now", uid="another")
    assert plan(spec, seen(told.announced, pod(0), again, pod(2))).roll.restarts == ()


def test_needs_that_are_not_known_for_a_moment_cost_no_approval() -> None:
    """While no broker answers nobody knows which settings need a restart."""
    told = plan(NEWER, seen())
    without = plan(NEWER, seen(told.announced, *(pod(one, revision={}) for one in ())))
    assert without.announced == told.announced
    nothing = replace(seen(told.announced), pods={})
    assert plan(NEWER, nothing).announced == told.announced


def test_the_status_keeps_what_an_approval_is_of() -> None:
    world = settled(updatePolicy="OnApproval")
    world.change({"spec": {"image": "good:2"}})
    asyncio.run(world.settle())
    told = world.status["plan"]
    assert [one["broker"] for one in told["covers"]] == [0, 1, 2]
    world.annotate("approve", told["hash"])
    asyncio.run(world.settle())
    assert sorted(world.restarted) == [0, 1, 2]
    world.change({"spec": {"maintenance": {"park": [1]}}})
    asyncio.run(world.settle())
    assert sorted(world.restarted) == [0, 1, 2]
    waiting = f"approval of plan {world.status['plan']['hash']}"
    assert world.status["plan"]["waitingOn"] == waiting
    assert world.status["plan"]["hash"] != told["hash"]

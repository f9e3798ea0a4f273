"""A claim that somebody has deleted stays while its pod does: what the operator restarts then."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from barnabas_operator.reconcile.broker.broker_plan import BrokerPlan, plan_broker
from barnabas_operator.reconcile.broker.cluster_state import ClusterView
from barnabas_operator.reconcile.broker.drain_request import DrainRequest
from barnabas_operator.reconcile.broker.eviction_gate import Ruling, judge
from barnabas_operator.reconcile.broker.observed import Observed
from tests.operator.reconcile.broker.views import (
    IMAGE,
    NOW,
    SPEC,
    cluster,
    observed,
    partition,
    pod,
    volume,
)

ALONE = partition("alone", [1], in_sync_min=1)
SHARED = partition("shared", [0, 1, 2])


def seen_with(view: ClusterView, *going: int, **fields: Any) -> Observed:
    pods = [pod(0), pod(1, revision={}, **fields), pod(2)]
    volumes = [volume(node_id, is_going=node_id in going) for node_id in range(3)]
    return observed(pods, view=view, volumes=volumes)


def plan(seen: Observed) -> BrokerPlan:
    return plan_broker(SPEC, seen, now=NOW, default_image=IMAGE)


@pytest.mark.parametrize("stuck", ["", "ImagePullBackOff"])
@pytest.mark.parametrize(
    ("partitions", "going", "is_restarted"),
    [
        ((SHARED, ALONE), (1,), False),
        ((SHARED, ALONE), (0,), True),
        ((SHARED,), (0, 1, 2), True),
        ((SHARED, ALONE), (), True),
    ],
)
def test_no_pod_is_deleted_whose_claim_goes_with_the_only_copy(
    partitions: tuple[Any, ...], going: tuple[int, ...], is_restarted: bool, stuck: str
) -> None:
    """A change of the image ended the last thing that kept the disk of `kubectl delete pvc`."""
    fields = {"is_ready": False, "is_running": False, "stuck": stuck} if stuck else {}
    live = [0, 2] if stuck else [0, 1, 2]
    view = cluster(*partitions, live=live, fenced=[1] if stuck else ())
    if stuck:
        kept = [replace(one, in_sync=one.in_sync - {1} or one.in_sync) for one in partitions]
        view = replace(view, partitions=tuple(kept))
    made = plan(seen_with(view, *going, **fields))
    assert [one.node_id for one in made.roll.restarts] == ([1] if is_restarted else [])
    if going:
        assert f"data-demo-{going[0]}" in made.warnings[0]
    if not is_restarted and not stuck:
        assert "alone-0, which no other broker that runs has in sync" in made.roll.waiting_on


def test_a_broker_that_is_alone_keeps_the_metadata() -> None:
    """It may have no topic, and all users and their rights."""
    seen = observed(
        [pod(0, revision={})], view=cluster(live=[0]), volumes=[volume(0, is_going=True)]
    )
    made = plan_broker(replace(SPEC, replicas=1), seen, now=NOW, default_image=IMAGE)
    assert made.roll.restarts == ()
    assert "the broker, which is alone" in made.roll.waiting_on


def test_a_volume_that_the_pod_does_without_holds_nothing_up() -> None:
    """The operator itself deletes the claims of volumes that are not declared any more."""
    seen = seen_with(cluster(ALONE))
    volumes = (*seen.volumes, volume(1, claim="more-demo-1", volume="more", is_going=True))
    made = plan(replace(seen, volumes=volumes))
    assert [one.node_id for one in made.roll.restarts] == [1]


def test_evictions_wait_for_it_as_restarts_do() -> None:
    """Draining the node would take the disk along."""
    request = DrainRequest(since=NOW, last=NOW)

    def ruling(*going: int, after: timedelta = timedelta(0)) -> Ruling:
        return judge(
            SPEC,
            seen_with(cluster(ALONE), *going),
            1,
            request=request,
            now=NOW + after,
            patience_seconds=3600,
        ).ruling

    assert (ruling(), ruling(1)) == (Ruling.SAFE, Ruling.DENIED)
    assert ruling(1, after=timedelta(hours=1)) is Ruling.OUT_OF_PATIENCE

"""Brokers with several volumes: more of them, fewer of them, and what happens to claims."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from barnabas_operator.broker_spec import BrokerSpec, DeleteClaim, Volume
from barnabas_operator.kubernetes.kinds import STATEFUL_SET
from barnabas_operator.reconcile.broker.broker_plan import BrokerPlan, plan_broker
from barnabas_operator.reconcile.broker.children import Rendering, render
from barnabas_operator.reconcile.broker.observed import (
    Observed,
    ProcessView,
    SetView,
)
from barnabas_operator.reconcile.broker.revision import revision_of
from barnabas_operator.reconcile.broker.storage_plan import StoragePlan, plan_storage
from barnabas_operator.spec import SpecError
from tests.operator.reconcile.broker.broker_world import NAME, NAMESPACE, BrokerWorld, settled
from tests.operator.reconcile.broker.views import (
    GIB,
    IMAGE,
    NOW,
    SPEC,
    cluster,
    members,
    observed,
    partition,
    pod,
    volume,
)

DATA, MORE = Volume(), Volume(name="more", size="20Gi", storage_class="fast")
TWO = {"storage": {"volumes": [{"name": "data"}, {"name": "more", "size": "20Gi"}]}}
BOTH = frozenset(("data", "more"))


def more(node_id: int, **fields: Any) -> Any:
    """The claim of the second volume of a broker."""
    sizes = {"requested_bytes": 20 * GIB, "capacity_bytes": 20 * GIB, "storage_class": "fast"}
    given = {"claim": f"more-demo-{node_id}", "uid": f"more-{node_id}", "volume": "more"}
    return volume(node_id, **{**given, **sizes, **fields})


def seen(*, on_more: int | None = 0, volumes: tuple[Volume, ...] = (DATA, MORE)) -> Observed:
    """Three brokers with two volumes, of which the first tells what is on its second."""
    made_from = revision_of(replace(SPEC, volumes=(DATA, MORE)), IMAGE)
    pods = [pod(node_id, volumes=BOTH, revision=made_from) for node_id in range(3)]
    found = observed(
        pods,
        view=cluster(),
        volumes=[one for n in range(3) for one in (volume(n), more(n))],
        stateful_set=SetView(uid="set", replicas=3, volumes=volumes),
    )
    told = {"/var/lib/barnabas/data": 5, "/var/lib/barnabas-volumes/more/data": 0}
    processes = {
        n: ProcessView(
            node_id=n, state="RUNNING", is_fenced=False, drain="running", size_bytes=0, held=told
        )
        for n in range(3)
    }
    changed = {
        path: count for path, count in told.items() if on_more is not None or "more" not in path
    }
    if on_more:
        changed["/var/lib/barnabas-volumes/more/data"] = on_more
    processes[0] = replace(processes[0], held=changed)
    return replace(found, processes=processes)


def storage(found: Observed, *volumes: Volume, is_rolling: bool = False) -> StoragePlan:
    spec = replace(SPEC, volumes=volumes)
    return plan_storage(spec, found, expected=range(3), is_rolling=is_rolling)


def planned(found: Observed, *volumes: Volume, **fields: Any) -> BrokerPlan:
    spec = replace(SPEC, volumes=volumes, **fields)
    return plan_broker(spec, found, now=NOW, default_image=IMAGE)


def stateful_set(spec: BrokerSpec) -> dict[str, Any]:
    made = render(spec, Rendering(image=IMAGE, replicas=3))
    (found,) = [one for one in made if one["kind"] == "StatefulSet"]
    return found


# ---------------------------------------------------------------- what pods are made of


def test_the_one_volume_that_brokers_always_had_is_rendered_as_before() -> None:
    """A new operator must not move the data of clusters that run, nor restart them."""
    found = stateful_set(SPEC)
    (claim,) = found["spec"]["volumeClaimTemplates"]
    (container,) = found["spec"]["template"]["spec"]["containers"]
    assert claim["metadata"]["name"] == "data"
    assert container["volumeMounts"][0] == {"name": "data", "mountPath": "/var/lib/barnabas"}
    assert not [one for one in container["command"] if "log.dir" in one]
    assert "volumes" not in revision_of(SPEC, IMAGE)
    declared = replace(SPEC, volumes=(Volume(name="data", size="10Gi"),))
    assert stateful_set(declared) == found


def test_each_volume_is_a_claim_a_mount_and_a_log_directory() -> None:
    """What a pod mounts and what its broker is told stand in the same template."""
    found = stateful_set(replace(SPEC, volumes=(MORE, DATA), metadata_volume="more"))
    claims = {one["metadata"]["name"]: one["spec"] for one in found["spec"]["volumeClaimTemplates"]}
    assert {name: one["resources"]["requests"]["storage"] for name, one in claims.items()} == {
        "more": "20Gi",
        "data": "10Gi",
    }
    assert claims["more"]["storageClassName"] == "fast"
    assert "storageClassName" not in claims["data"]
    (container,) = found["spec"]["template"]["spec"]["containers"]
    mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    assert mounts["more"] == "/var/lib/barnabas-volumes/more"
    assert mounts["data"] == "/var/lib/barnabas"
    directories = "/var/lib/barnabas-volumes/more/data,/var/lib/barnabas/data"
    assert f"log.dirs={directories}" in container["command"]
    assert "metadata.log.dir=/var/lib/barnabas-volumes/more/data" in container["command"]


@pytest.mark.parametrize(
    "storage_spec",
    [
        {"volumes": [{"name": "more"}]},
        {"metadataVolume": "more"},
        {"volumes": [{"name": "data"}, {"name": "data"}]},
        {"volumes": [{"name": "data"}, {"name": "tmp"}]},
        {"volumes": [{"name": "data", "size": "much"}]},
    ],
)
def test_volumes_that_cannot_be_are_refused_with_the_field(storage_spec: dict[str, Any]) -> None:
    """As the API server's rules do, also where those are not asked."""
    manifest = {"metadata": {"name": "demo"}, "spec": {"storage": storage_spec}}
    with pytest.raises(SpecError, match=r"spec\.storage\.volumes"):
        BrokerSpec.from_manifest(manifest)


# ---------------------------------------------------------------- plans


def test_another_volume_makes_the_stateful_set_anew_and_no_pod_goes_before_that() -> None:
    """A pod that is made from the old templates would have to go again."""
    found = observed(view=cluster(), volumes=[volume(n) for n in range(3)])
    plan = planned(found, DATA, MORE)
    assert plan.storage.recreated_set == "set"
    assert plan.rendering.volumes == (DATA, MORE)
    assert (plan.roll.restarts, plan.roll.waiting_on) == (
        (),
        "the StatefulSet, which is made again",
    )
    after = replace(found, stateful_set=SetView(uid="new", replicas=3, volumes=(DATA, MORE)))
    plan = planned(after, DATA, MORE)
    assert plan.storage.recreated_set is None
    assert [one.reasons for one in plan.roll.needs] == [("storage.volumes changed",)] * 3
    assert len(plan.roll.restarts) == 1


def test_each_volume_grows_by_itself() -> None:
    """One claim is asked for more, the other is left alone."""
    plan = storage(seen(), DATA, replace(MORE, size="30Gi"))
    assert [one.claim for one in plan.expansions] == [f"more-demo-{n}" for n in range(3)]
    assert plan.recreated_set == "set"
    assert storage(seen(), DATA, replace(MORE, size="30Gi"), is_rolling=True).recreated_set is None


def test_what_cannot_change_about_a_volume_is_told_and_left() -> None:
    """The schema refuses it, too; not where a default stands behind it."""
    plan = storage(seen(), DATA, replace(MORE, size="5Gi", storage_class="slow"))
    assert plan.volumes == (DATA, MORE)
    assert plan.problems == (
        "volume more cannot shrink from 20Gi to 5Gi",
        "volume more cannot change its storage class from fast to slow",
    )
    assert plan.recreated_set is None


def test_an_empty_volume_can_be_taken_away() -> None:
    """And its brokers are restarted without it."""
    plan = storage(seen(), DATA)
    assert (plan.volumes, plan.recreated_set, plan.problems) == ((DATA,), "set", ())


@pytest.mark.parametrize(
    ("on_more", "why"), [(3, "broker 0 has 3 logs there"), (None, "does not tell")]
)
def test_a_volume_with_something_on_it_stays_and_is_told(on_more: int | None, why: str) -> None:
    """Its replicas would be gone from every broker at once."""
    plan = storage(seen(on_more=on_more), DATA)
    assert plan.volumes == (DATA, MORE)
    assert plan.recreated_set is None
    (problem,) = plan.problems
    assert problem.startswith("volume more is not declared any more, and stays: broker 0")
    assert why in problem
    assert planned(seen(on_more=on_more), DATA).roll.needs == ()


def test_what_turns_up_on_a_volume_while_brokers_are_restarted_without_brings_it_back() -> None:
    """A topic that was made after the look has its replica there."""
    found = seen(on_more=1, volumes=(DATA,))
    plan = storage(found, DATA)
    assert {one.name for one in plan.volumes} == {"data", "more"}
    assert plan.recreated_set == "set"
    # A broker that is just being restarted tells nothing, and nothing turns up by that.
    silent = seen(on_more=None, volumes=(DATA,))
    assert storage(silent, DATA).volumes == (DATA,)


def test_a_volume_that_nobody_provides_can_be_taken_back_while_its_broker_waits_for_it() -> None:
    """A storage class that is not there must not hold up what follows."""
    waiting = pod(2, volumes=BOTH, is_ready=False, node="", address="", is_started=False)
    found = observed(
        [pod(0), pod(1), waiting],
        view=cluster(live=(0, 1), fenced=(2,)),
        volumes=[*(volume(n) for n in range(3)), more(2, is_bound=False, capacity_bytes=0)],
        stateful_set=SetView(uid="set", replicas=3, volumes=(DATA, MORE)),
    )
    assert storage(found, DATA, is_rolling=True).recreated_set == "set"


def test_a_broker_made_again_keeps_volumes_that_it_does_not_declare() -> None:
    """Nobody runs who could tell what is on them."""
    found = Observed(volumes=(volume(0), more(0)))
    plan = storage(found, DATA)
    assert {one.name for one in plan.volumes} == {"data", "more"}
    assert "does not tell what it has there" in plan.problems[0]
    # What was made again from a claim has the class by its name; who names none is content.
    again = seen(volumes=(DATA, replace(MORE, storage_class="standard")))
    plan = storage(again, DATA, replace(MORE, storage_class=None))
    assert (plan.problems, plan.recreated_set) == ((), None)
    noted = Observed(volumes=(volume(0), more(0, is_decommissioned=True)))
    assert storage(noted, DATA).volumes == (DATA,)


# ---------------------------------------------------------------- claims


def scaled_away(**fields: Any) -> Observed:
    """Two brokers are left; the claims of the third are noted to hold nothing."""
    noted = [volume(2, is_decommissioned=True, **fields), more(2, is_decommissioned=True)]
    volumes = [volume(0), volume(1), *noted]
    return observed([pod(0), pod(1)], view=cluster(live=(0, 1)), volumes=volumes)


@pytest.mark.parametrize("when", list(DeleteClaim))
def test_claims_of_a_broker_that_was_scaled_away_go_where_that_is_asked_for(
    when: DeleteClaim,
) -> None:
    """The default keeps them."""
    plan = planned(scaled_away(), DATA, replicas=2, delete_claim=when)
    wanted = ["data-demo-2", "more-demo-2"] if when.is_when_scaled else []
    assert [one.claim for one in plan.claims.dropped] == wanted


def test_claims_stay_of_whoever_may_come_back() -> None:
    """Stopped, not yet forgotten, on its way, not known: none of that is gone for good. Nor is a
    member of the metadata log whose pod was taken away by hand (story 910075).
    """
    asked = {"delete_claim": DeleteClaim.ALWAYS}
    away = scaled_away()
    stopped = replace(away, pods={}, cluster=None, stateful_set=SetView(uid="set", replicas=0))
    for found, replicas in (
        (stopped, 0),
        (away, 3),
        (replace(away, cluster=None), 2),
        (replace(away, cluster=cluster(live=(0, 1), fenced=(2,))), 2),
        (replace(away, pods={**away.pods, 2: pod(2, is_terminating=True)}), 2),
        (replace(away, stateful_set=None), 2),
        (scaled_away(is_going=True), 2),
        (replace(away, cluster=cluster(live=(0, 1), members=members(0, 1, 2))), 2),
        (replace(away, cluster=cluster(live=(0, 1), members=members())), 2),
    ):
        plan = planned(found, DATA, replicas=replicas, **asked)
        assert "data-demo-2" not in [one.claim for one in plan.claims.dropped], found
    parked = observed(
        [pod(0), pod(1), pod(2, is_gated=True, is_ready=False, node="")],
        view=cluster(live=(0, 1), fenced=(2,)),
        volumes=[volume(n) for n in range(3)],
    )
    assert planned(parked, DATA, parked=frozenset({2}), **asked).claims.dropped == ()


def test_claims_of_a_volume_stay_while_a_replica_may_be_on_them() -> None:
    """A topic of one replica was made there in the moment before its broker was stopped."""
    found = observed(
        view=cluster(partition("late", [0], [0], leader=None)),
        volumes=[volume(0), more(0, is_decommissioned=True), more(1, is_decommissioned=True)],
    )
    dropped = planned(found, DATA, delete_claim=DeleteClaim.ALWAYS).claims.dropped
    assert [one.claim for one in dropped] == ["more-demo-1"]


def volumes_in(world: BrokerWorld) -> list[str]:
    return sorted(claim["metadata"]["name"] for claim in world.claims())


def test_a_volume_is_added_to_running_brokers_one_after_the_other() -> None:
    """As users of other operators expect: no more is asked of them than to declare it."""
    world = settled()
    world.change({"spec": TWO})
    asyncio.run(world.settle())
    assert sorted(world.restarted) == [0, 1, 2]
    assert volumes_in(world) == [
        *(f"data-demo-{n}" for n in range(3)),
        *(f"more-demo-{n}" for n in range(3)),
    ]
    assert world.condition("Ready")["status"] == "True"
    world.api.writes.clear()
    for _ in range(5):
        asyncio.run(world.reconcile())
        world.tick()
    assert world.api.writes == []


@pytest.mark.parametrize("when", ["Never", "WhenScaled"])
def test_a_volume_is_taken_away_when_it_is_empty(when: str) -> None:
    """With its claims, where that is asked for."""
    world = settled(**TWO)
    world.on_volumes = {1: {"more": 2}}
    world.change({"spec": {"storage": {"volumes": [{"name": "data"}], "deleteClaim": when}}})
    asyncio.run(world.settle())
    assert world.restarted == []
    assert "broker 1 has 2 logs there" in world.condition("Stalled")["message"]
    world.on_volumes = {}
    asyncio.run(world.settle())
    assert sorted(world.restarted) == [0, 1, 2]
    assert world.condition("Ready")["status"] == "True"
    left = {name for name in volumes_in(world) if name.startswith("more")}
    assert left == (set() if when == "WhenScaled" else {f"more-demo-{n}" for n in range(3)})
    world.change({"spec": TWO})
    asyncio.run(world.settle())
    assert world.condition("Ready")["status"] == "True"
    assert not [one for one in world.claims() if one["metadata"].get("annotations")]


def test_claims_of_brokers_go_with_them_and_stay_when_all_are_stopped() -> None:
    """deleteClaim: WhenScaled."""
    world = settled(4, storage={"deleteClaim": "WhenScaled"})
    world.change({"spec": {"replicas": 3}})
    asyncio.run(world.settle())
    assert volumes_in(world) == [f"data-demo-{n}" for n in range(3)]
    world.is_available = False
    world.change({"spec": {"replicas": 0}})
    asyncio.run(world.settle())
    assert volumes_in(world) == [f"data-demo-{n}" for n in range(3)]


@pytest.mark.parametrize("is_done_first", [False, True])
def test_an_operator_that_dies_at_any_write_adds_and_takes_away_volumes_all_the_same(
    is_done_first: bool,
) -> None:
    """The next one goes on from what is there."""
    for writes in range(0, 14, 2):
        world = settled()
        for spec in (TWO, {"storage": {"volumes": None, "deleteClaim": "Always"}}):
            world.change({"spec": spec})
            asyncio.run(world.walk_until_killed(writes, is_done_first=is_done_first))
            asyncio.run(world.settle())
            assert world.condition("Ready")["status"] == "True", (writes, spec)
        assert volumes_in(world) == [f"data-demo-{n}" for n in range(3)]
        found = world.store.get(STATEFUL_SET, NAMESPACE, NAME)
        assert len(found["spec"]["volumeClaimTemplates"]) == 1


@pytest.mark.parametrize(
    ("declared", "kept"), [("0.7Gi", "751619276800m"), ("99999999Pi", "9223372036854775807")]
)
def test_a_size_is_the_same_in_the_spelling_that_the_api_server_keeps(
    declared: str, kept: str
) -> None:
    """A pass that could not read it told nothing, and a StatefulSet was made again for ever."""
    set_ = SetView(uid="set", replicas=3, volumes=(Volume(size=kept),))
    found = observed(view=cluster(), stateful_set=set_)
    assert storage(found, Volume(size=declared)).recreated_set is None


@pytest.mark.parametrize(
    ("size", "message"),
    [
        ("0.7Gi", "no whole number of bytes"),
        ("10.3Gi", "no whole number of bytes"),
        ("99999999Pi", "1Ei at most"),
        ("0", "more than 0"),
        ("10GB", "is no size"),
    ],
)
def test_a_size_that_no_volume_can_have_is_told(size: str, message: str) -> None:
    for given in ({"size": size}, {"volumes": [{"name": "data", "size": size}]}):
        manifest = {"metadata": {"name": NAME}, "spec": {"storage": given}}
        with pytest.raises(SpecError, match=message):
            BrokerSpec.from_manifest(manifest)


def test_a_good_size_puts_right_what_one_in_fractions_has_left() -> None:
    """Until the schema refused it, 0.7Gi got as far as the StatefulSet, and nothing went on."""
    world = settled()
    world.change({"spec": {"storage": {"size": "10.3Gi"}}})
    asyncio.run(world.reconcile())
    assert "no whole number" in world.condition("Stalled")["message"]
    templates = world.store.get(STATEFUL_SET, NAMESPACE, NAME)["spec"]["volumeClaimTemplates"]
    templates[0]["spec"]["resources"]["requests"]["storage"] = "11059540787200m"
    world.change({"spec": {"storage": {"size": "11Gi"}}})
    asyncio.run(world.settle())
    (template,) = world.store.get(STATEFUL_SET, NAMESPACE, NAME)["spec"]["volumeClaimTemplates"]
    assert template["spec"]["resources"]["requests"]["storage"] == "11Gi"
    assert world.condition("Ready")["status"] == "True"

"""Scaling, volumes and settings that change in place: the pure plans."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from barnabas_operator.broker_spec import Volume
from barnabas_operator.reconcile.broker.broker_plan import known_racks, max_unavailable, plan_broker
from barnabas_operator.reconcile.broker.cluster_state import (
    BrokerSettings,
    RegisteredBroker,
)
from barnabas_operator.reconcile.broker.live_config_plan import LiveConfigPlan, plan_live_config
from barnabas_operator.reconcile.broker.observed import (
    Observed,
    SetView,
)
from barnabas_operator.reconcile.broker.scale_plan import MOVING_MAX, ScalePlan, plan_scale
from barnabas_operator.reconcile.broker.storage_plan import StoragePlan, permission, plan_storage
from barnabas_protocol.ids import TopicPartition
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

SETTINGS = BrokerSettings(
    known=frozenset({"live", "other", "fixed"}),
    live=frozenset({"live", "other"}),
    defaults={"live": "0"},
)


def scale(seen: Observed, replicas: int = 3, **fields: Any) -> ScalePlan:
    return plan_scale(replace(SPEC, replicas=replicas, **fields), seen, is_rolling=False)


def storage(seen: Observed, size: str = "10Gi", **fields: Any) -> StoragePlan:
    spec = replace(SPEC, volumes=(Volume(size=size),), **fields)
    return plan_storage(spec, seen, expected=range(3), is_rolling=False)


def live(seen: Observed, **config: str) -> LiveConfigPlan:
    return plan_live_config(replace(SPEC, config=config), seen)


def test_the_first_stateful_set_has_what_is_declared_or_what_has_data() -> None:
    """A Broker that is made again over old volumes does not leave some of them behind."""
    assert scale(Observed(), 3).replicas == 3
    seen = Observed(volumes=(volume(4), volume(5, is_decommissioned=True)))
    assert scale(seen, 3).replicas == 5


def test_moves_take_the_place_of_the_leaver_and_go_to_the_least_loaded() -> None:
    """operator.md 5: move, then remove; order of replicas says who leads."""
    pods = [pod(node_id) for node_id in range(4)]
    view = cluster(
        partition("a", [3, 0]), partition("b", [0, 1]), partition("c", [1, 3]), live=range(4)
    )
    plan = scale(observed(pods, view=view), 3)
    assert plan.replicas == 4
    assert plan.moves == {TopicPartition("a", 0): (2, 0), TopicPartition("c", 0): (1, 2)}
    assert plan.emptying is not None
    assert (plan.emptying.node_id, plan.emptying.left) == (3, 2)


def test_replicas_stay_in_different_racks_where_that_can_be() -> None:
    """operator.md 1: rack; the loss of one rack must not take two replicas."""
    racks = {0: "a", 1: "a", 2: "b", 3: "b"}
    view = replace(
        cluster(partition("t", [0, 3]), partition("u", [2, 1])),
        brokers={
            node_id: RegisteredBroker(node_id=node_id, rack=rack) for node_id, rack in racks.items()
        },
    )
    pods = [pod(node_id) for node_id in range(4)]
    assert scale(observed(pods, view=view), 3).moves == {TopicPartition("t", 0): (0, 2)}


def test_what_is_on_its_way_already_is_not_moved_again_and_the_number_is_limited() -> None:
    """Partitions on the move share the network with the clients."""
    pods = [pod(node_id) for node_id in range(4)]
    going = partition("a", [3, 0, 1], leaving=frozenset({3}), is_moving=True)
    many = [partition(f"t{number}", [3, 0]) for number in range(MOVING_MAX + 5)]
    plan = scale(observed(pods, view=cluster(going, *many, live=range(4))), 3)
    assert len(plan.moves) == MOVING_MAX - 1
    assert TopicPartition("a", 0) not in plan.moves


def test_nothing_is_moved_while_nobody_leads_who_knows_what_moves_already() -> None:
    """Once nobody told in time who has the metadata log: what was on its way was moved again, from
    all of its old and new replicas to as many, and had one replica more than before for good.
    """
    pods = [pod(node_id) for node_id in range(5)]
    going = partition("a", [4, 0, 1, 2])
    view = cluster(going, live=range(5), controller_id=None, members=members())
    plan = scale(observed(pods, view=view), 4)
    assert (plan.replicas, plan.moves) == (5, {})
    assert plan.emptying is not None
    assert (plan.emptying.left, plan.emptying.blocked) == (1, "")
    assert plan.waiting_on == "broker 4 has partitions, and nobody leads who knows what moves"


def test_a_pod_goes_only_when_its_broker_holds_nothing_and_no_restart_is_under_way() -> None:
    """operator.md 5: scale-in is blocked while the broker holds replicas."""
    pods = [pod(node_id) for node_id in range(4)]
    seen = observed(pods, view=cluster(partition("a", [0, 1]), live=range(4)))
    assert scale(seen, 3).replicas == 3
    busy = plan_scale(SPEC, seen, is_rolling=True)
    assert (busy.replicas, busy.waiting_on) == (4, "the restart of a broker")


def test_brokers_that_are_gone_are_forgotten_before_the_next_one_leaves() -> None:
    """operator.md 5: never more than one decommission at a time."""
    pods = [pod(node_id) for node_id in range(4)]
    view = cluster(partition("a", [3, 0]), live=range(4), fenced=[4])
    plan = scale(observed(pods, view=view), 3)
    assert (plan.unregistered, plan.moves, plan.replicas) == ((4,), {}, 4)
    stopping = [*pods, pod(4, is_terminating=True)]
    seen = observed(stopping, view=view, stateful_set=SetView(uid="s", replicas=4))
    assert scale(seen, 3).unregistered == ()
    assert scale(seen, 3).waiting_on == "broker 4 stops"


def test_a_registration_that_still_holds_replicas_is_kept() -> None:
    """Somebody scaled the StatefulSet by hand: the data on that volume is still needed."""
    view = cluster(partition("a", [3, 0], [0]), fenced=[3])
    assert scale(observed(view=view)).unregistered == ()


def test_a_broker_that_went_with_its_partitions_comes_back_to_be_emptied() -> None:
    """The StatefulSet was lowered by hand to what is declared: nobody would have started it again,
    and the Broker said Ready.
    """
    parts = (partition("a", [3, 0], [0]), partition("b", [3], []))
    seen = observed(view=cluster(*parts, fenced=[3]), volumes=[volume(3)])
    plan = scale(seen)
    assert plan.replicas == 4
    assert plan.waiting_on == "broker 3, which has no pod and still holds 2 partitions"
    assert scale(replace(seen, cluster=cluster(*parts))).replicas == 4  # also if it is forgotten
    assert scale(replace(seen, cluster=cluster(*parts, live=range(4)))).replicas == 3


def test_a_broker_that_went_with_its_volumes_gives_its_partitions_away() -> None:
    """What others have is copied from them; what only it had is told."""
    view = cluster(partition("a", [3, 0], [0]), fenced=[3])
    for volumes in ([], [volume(3, is_going=True)], [volume(3, is_bound=False)]):
        plan = scale(observed(view=view, volumes=volumes))
        assert (plan.replicas, plan.moves) == (3, {TopicPartition("a", 0): (1, 0)})
        assert plan.waiting_on == "broker 3 gives 1 partitions to others"


def test_brokers_without_which_nobody_leads_come_back() -> None:
    """Two of three were scaled away by hand: nobody could forget them, or ever led again."""
    view = cluster(live=[0], fenced=[1, 2], controller_id=None)
    seen = observed([pod(0)], view=view, volumes=[volume(1), volume(2)])
    plan = scale(seen, 1)
    assert plan.replicas == 3
    assert plan.waiting_on == "broker 2, without which nobody leads the control plane"
    # They went at once: nobody was left who could fence them.
    assert scale(replace(seen, cluster=cluster(live=range(3), controller_id=None)), 1) == plan
    for fine in (
        replace(seen, cluster=replace(view, controller_id=0)),
        replace(seen, volumes=()),
        replace(seen, pods={0: pod(0), 1: pod(1)}, cluster=cluster(controller_id=None)),
    ):
        assert scale(fine, 1).replicas == 1


def test_members_of_the_metadata_log_come_back_although_most_brokers_are_left() -> None:
    """Story 1002222: of five brokers two were scaled away by hand, two of the three members."""
    view = cluster(live=range(5), controller_id=None)
    pods = [pod(0), pod(1), pod(2)]
    seen = observed(pods, view=view, volumes=[volume(3), volume(4)])

    def telling(members: Collection[int]) -> Observed:
        told = {
            node_id: replace(one, metadata_members=frozenset(members))
            for node_id, one in seen.processes.items()
        }
        return replace(seen, processes=told)

    assert scale(seen, 3).replicas == 3
    assert scale(telling([0, 3, 4]), 3).replicas == 5
    assert scale(telling([0, 1, 4]), 3).replicas == 3


def test_brokers_with_data_come_back_when_those_that_are_left_do_not_start() -> None:
    """Story 920070: the one broker that was left by hand was restarted, and alone it was no
    majority of the metadata log.
    """
    volumes = [volume(0), volume(1), volume(2), volume(3, is_decommissioned=True)]
    starting = observed([pod(0, is_ready=False)], volumes=volumes)
    plan = scale(starting, 1)
    assert (plan.replicas, plan.waiting_on) == (3, "broker 2, which has data")
    for serving in (pod(0), pod(0, is_ready=False, is_broker_ready=True)):
        # Only the operator does not reach it.
        assert scale(observed([serving], volumes=volumes), 1).replicas == 1


def test_the_last_broker_is_not_emptied() -> None:
    """operator.md 1: last-broker guard."""
    view = cluster(partition("a", [0]), live=[0])
    plan = scale(observed([pod(0)], view=view), 1, decommissioned=frozenset({0}))
    assert plan.emptying is not None
    assert plan.emptying.blocked == "broker 0 is the last one"


def test_volumes_grow_where_the_class_can_and_others_are_told() -> None:
    """operator.md 5: a class that cannot expand is a warning; actual >= desired is fine."""
    volumes = [
        volume(0, can_expand=True),
        volume(1, can_expand=False, storage_class="local"),
        volume(2, requested_bytes=30 * GIB, capacity_bytes=30 * GIB),
    ]
    plan = storage(observed(volumes=volumes), "20Gi")
    assert [one.claim for one in plan.expansions] == ["data-demo-0"]
    assert plan.problems == (
        "data-demo-1 stays as it is: storage class local does not expand volumes",
    )
    assert plan.recreated_set == "set"


def test_growth_that_is_under_way_is_waited_for() -> None:
    """operator.md 5: grow the PVC, then the file system."""
    growing = volume(0, requested_bytes=20 * GIB)
    assert storage(observed(volumes=[growing]), "20Gi").waiting_on == (
        "the volume of data-demo-0 to grow"
    )
    waiting = replace(growing, is_waiting_for_file_system=True)
    assert storage(observed(volumes=[waiting]), "20Gi").waiting_on == (
        "the file system of data-demo-0 to grow"
    )


def test_a_volume_does_not_shrink() -> None:
    """operator.md 5: shrinking refused with a condition."""
    plan = storage(observed(volumes=[volume(0)]), "5Gi")
    assert plan.problems == ("volume data cannot shrink from 10Gi to 5Gi",)
    assert (plan.volumes, plan.recreated_set, plan.expansions) == ((Volume(),), None, ())


def test_a_size_that_no_volume_has_got_is_taken_back() -> None:
    """1000Gi by mistake, refused by a quota or a class: the way back was refused as well."""
    meant = SetView(uid="set", replicas=3, volumes=(Volume(size="1000Gi"),))
    plan = storage(observed(volumes=[volume(0), volume(1)], stateful_set=meant), "10Gi")
    assert plan.problems == ()
    assert plan.recreated_set == "set"
    partly = [volume(0), volume(1, requested_bytes=1000 * GIB)]
    plan = storage(observed(volumes=partly, stateful_set=meant), "10Gi")
    assert plan.problems == ("volume data cannot shrink from 1000Gi to 10Gi",)


def test_a_lost_disk_is_replaced_only_when_told_and_when_nothing_is_only_there() -> None:
    """operator.md 3.15: phase DiskLost, guarded replacement."""
    lost = volume(2, lost_node="node2")
    pods = [pod(0), pod(1), pod(2, is_ready=False, node="", stuck="Unschedulable")]
    safe = cluster(partition("a", [0, 1, 2], [0, 1]), live=[0, 1], fenced=[2])
    seen = observed(pods, volumes=[lost], view=safe)
    (problem,) = storage(seen).problems
    assert "barnabas.dev/replace-disk: '2/claim-2'" in problem
    assert storage(seen).replacements == ()
    allowed = frozenset({"2/claim-2"})
    (step,) = storage(seen, replaced_disks=allowed).replacements
    assert (step.claim_uid, step.pod_uid) == ("claim-2", "pod-2")
    alone = cluster(partition("a", [2], [2], leader=None), live=[0, 1], fenced=[2])
    blocked = storage(observed(pods, volumes=[lost], view=alone), replaced_disks=allowed)
    assert blocked.replacements == ()
    assert "a-0, which no other broker that runs has in sync" in blocked.problems[0]
    silent = storage(observed(pods, volumes=[lost]), replaced_disks=allowed)
    assert silent.replacements == ()
    other = storage(seen, replaced_disks=frozenset({"2/another-claim"}))
    assert other.replacements == ()


def test_of_two_lost_disks_none_is_replaced_that_is_the_others_only_copy() -> None:
    """Found by reading, 3: without a controller nobody takes either out of the ISR."""
    lost = [volume(1, lost_node="node1"), volume(2, lost_node="node2")]
    pods = [pod(0), pod(1, is_ready=False, node=""), pod(2, is_ready=False, node="")]
    allowed = frozenset(map(permission, lost))
    for there in (
        cluster(partition("a", [1, 2], leader=None)),
        cluster(partition("a", [1, 2], leader=None), live=[0], fenced=[1, 2]),
        cluster(partition("a", [1, 2, 3], [1, 3]), live=[0, 1, 2], fenced=[3]),
    ):
        plan = storage(observed(pods, volumes=lost, view=there), replaced_disks=allowed)
        assert 1 not in {one.node_id for one in plan.replacements}
        assert "a-0, which no other broker that runs has in sync" in plan.problems[0]


def test_lost_disks_are_replaced_one_at_a_time_and_only_under_a_controller() -> None:
    lost = [volume(1, lost_node="node1"), volume(2, lost_node="node2")]
    pods = [pod(0), pod(1, is_ready=False, node=""), pod(2, is_ready=False, node="")]
    allowed = frozenset(map(permission, lost))
    shared = partition("a", [0, 1, 2], [0])
    led = cluster(shared, live=[0], fenced=[1, 2])
    plan = storage(observed(pods, volumes=lost, view=led), replaced_disks=allowed)
    assert [one.node_id for one in plan.replacements] == [1]
    unled = replace(led, controller_id=None)
    plan = storage(observed(pods, volumes=lost, view=unled), replaced_disks=allowed)
    assert plan.replacements == ()
    assert "the control plane, which nobody leads" in plan.problems[0]


def test_a_lost_disk_of_the_metadata_logs_majority_is_not_replaced() -> None:
    """Its members 1 and 2 would come back knowing nothing of what they have promised."""
    pods = [pod(0), pod(1), pod(2, is_ready=False, node="")]
    lost = volume(2, lost_node="node2")
    view = cluster(
        partition("a", [0, 1, 2], [0, 1]),
        live=[0, 1],
        fenced=[2],
        members=members(0, 1, 2, in_touch=[0]),
    )
    seen = observed(pods, volumes=[lost], view=view)
    plan = storage(seen, replaced_disks=frozenset({permission(lost)}))
    assert plan.replacements == ()
    assert "because of the metadata log: of the metadata log's members" in plan.problems[0]


def test_a_declared_setting_is_set_for_all_when_running_brokers_have_another() -> None:
    """operator.md 5: alter in place; what the file has already needs nothing."""
    pods = [pod(0, config={"live": "1"}), pod(1, config={"live": "1"})]
    seen = observed(pods, view=cluster(settings=SETTINGS))
    assert live(seen, live="2").assigned == {"live": "2"}
    assert live(seen, live="2").remembered == {"live": "2"}
    assert live(seen, live="1").assigned == {}
    assert live(seen, live="1", fixed="3").live == {"live"}


def test_what_others_have_set_is_left_alone_unless_it_is_declared() -> None:
    """The Broker wins for what it names, and only for that."""
    settings = replace(SETTINGS, overrides={"live": "7", "other": "8"})
    seen = observed([pod(0)], view=cluster(settings=settings))
    assert live(seen).assigned == {}
    assert live(seen).removed == ()
    assert live(seen, live="1").assigned == {"live": "1"}


def test_a_setting_that_is_no_longer_declared_goes_back_to_its_default() -> None:
    """For as long as a broker runs that started with another value; then the override goes."""
    old = pod(0, config={"live": "5"})
    settings = replace(SETTINGS, overrides={"live": "5"})
    seen = observed([old], view=cluster(settings=settings), live_config={"live": "5"})
    assert live(seen).assigned == {"live": "0"}
    anew = observed([pod(0)], view=cluster(settings=settings), live_config={"live": "0"})
    assert (live(anew).assigned, live(anew).removed) == ({}, ("live",))
    assert live(anew).remembered == {}


def test_min_in_sync_of_the_cluster_follows_the_number_of_brokers() -> None:
    """KIP-966: where brokers have a value for the cluster, their files do not count any more."""
    key = "min.insync.replicas"
    known = replace(SETTINGS, live=SETTINGS.live | {key}, defaults={**SETTINGS.defaults, key: "1"})
    founded = replace(known, overrides={key: "1"})
    seen = observed([pod(0)], view=cluster(settings=founded))
    assert live(seen).assigned == {key: "2"}  # three brokers are declared
    assert plan_live_config(replace(SPEC, config={key: "3"}), seen).assigned == {key: "3"}
    remembered = observed([pod(0)], view=cluster(settings=founded), live_config={key: "1"})
    assert live(remembered).removed == ()  # brokers would refuse that
    before = observed([pod(0)], view=cluster(settings=known))
    assert live(before).assigned == {}


def test_nothing_about_settings_is_decided_while_no_broker_answers() -> None:
    """Which of them can change in place is the brokers' own knowledge."""
    plan = live(observed(live_config={"live": "5"}), live="6")
    assert (plan.assigned, plan.removed, plan.remembered) == ({}, (), {"live": "5"})


@pytest.mark.parametrize(
    ("in_sync", "in_sync_min", "allowed"),
    [([0, 1, 2], 2, 1), ([0, 1], 2, 0), ([0], 2, 0), ([0, 1, 2], 3, 1), ([0], 3, 0)],
)
def test_evictions_are_allowed_by_how_many_are_in_sync(
    in_sync: list[int], in_sync_min: int, allowed: int
) -> None:
    """operator.md 4: the catch-up guard."""
    one = partition("a", [0, 1, 2], in_sync, in_sync_min=in_sync_min)
    assert max_unavailable(observed(view=cluster(one))) == allowed


def test_a_pod_that_finds_no_node_does_not_hold_up_the_files_of_the_others() -> None:
    """One that was never placed has no rack; one that was keeps the rack it had."""
    spec = replace(SPEC, topology_key="zone")
    placed = pod(0, rack="a")
    starting = pod(1, node="", is_ready=False)
    assert known_racks(spec, observed([placed, starting]), 2) == {0: "a"}
    homeless = replace(starting, is_unschedulable=True)
    assert known_racks(spec, observed([placed, homeless]), 2) == {0: "a", 1: None}
    again = observed([placed, homeless], racks={1: "b"})
    assert known_racks(spec, again, 2) == {0: "a", 1: "b"}


def test_a_rack_that_changed_is_a_reason_to_restart() -> None:
    """With volumes that follow a pod to another zone, or a file that came without a rack."""
    spec = replace(SPEC, topology_key="zone")
    pods = [pod(node_id, rack="a", revision={}) for node_id in range(3)]
    plan = plan_broker(spec, observed(pods, view=cluster()), now=NOW, default_image=IMAGE)
    reasons = {need.node_id: need.reasons for need in plan.roll.needs}
    assert "its rack is a, it started with none" in reasons[1]

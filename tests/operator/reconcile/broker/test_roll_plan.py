"""Which broker is restarted next, and what is waited for: the rules of the roll, one by one."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from barnabas_operator.broker_spec import BrokerSpec, UpdatePolicy
from barnabas_operator.reconcile.broker.isr_gate import blocking, named, unguarded
from barnabas_operator.reconcile.broker.observed import (
    InFlight,
    Observed,
)
from barnabas_operator.reconcile.broker.roll_plan import (
    UNANSWERED_GRACE_SECONDS,
    RollPlan,
    plan_roll,
)
from tests.operator.reconcile.broker.views import NOW, SPEC, cluster, observed, partition, pod

ALL = {0: ["image changed"], 1: ["image changed"], 2: ["image changed"]}
FLYING = InFlight(node_id=1, pod_uid="old", reason="image changed")
MOMENT = timedelta(seconds=1)
ORDERS = partition("orders", [0, 1, 2])


def plan(seen: Observed, reasons: Any = ALL, spec: BrokerSpec = SPEC) -> RollPlan:
    return plan_roll(spec, seen, reasons, expected=range(3), plan_hash="h1", now=NOW)


def restarted(roll: RollPlan) -> list[int]:
    return [one.node_id for one in roll.restarts]


def test_nothing_happens_where_nothing_has_to() -> None:
    """Idle."""
    roll = plan(observed(view=cluster(ORDERS)), {})
    assert (roll.needs, roll.restarts, roll.in_flight, roll.waiting_on) == ((), (), None, "")


def test_one_broker_is_taken_and_the_lock_names_its_pod() -> None:
    """operator.md 4: lock, then delete; the state that a crash needs is in the status."""
    roll = plan(observed(view=cluster(ORDERS)))
    assert restarted(roll) == [1]
    assert roll.in_flight == InFlight(node_id=1, pod_uid="pod-1", reason="image changed")
    assert [need.node_id for need in roll.needs] == [1, 2, 0]


def test_the_controller_goes_when_nobody_else_is_left() -> None:
    """operator.md 5: the controller last, looked at again each time."""
    seen = observed(view=cluster(ORDERS, controller_id=2))
    assert restarted(plan(seen, {1: ["x"], 2: ["x"]})) == [1]
    assert restarted(plan(seen, {2: ["x"]})) == [2]


def test_a_controller_does_not_go_before_another_one_that_has_to_wait() -> None:
    """Else it would lead the control plane away and be restarted in the middle."""
    held = partition("orders", [1, 2], [1, 2], in_sync_min=1)
    short = partition("short", [0, 1, 2], [1, 2])
    roll = plan(observed(view=cluster(held, short)), {0: ["x"], 1: ["x"]})
    assert restarted(roll) == []
    assert roll.waiting_on == "broker 1: short-0 cannot spare it"


@pytest.mark.parametrize(
    ("pods", "waiting"),
    [
        ([pod(0), pod(1, is_terminating=True), pod(2)], "broker 1: its pod stops"),
        ([pod(0), pod(1, is_ready=False), pod(2)], "broker 1: its pod starts"),
        ([pod(0), pod(1, is_ready=False, node=""), pod(2)], "broker 1: its pod has no node yet"),
        (
            [pod(0), pod(1, is_ready=False, node="", scheduler="ours"), pod(2)],
            "broker 1: its pod has no node yet, and waits for the scheduler ours",
        ),
        (
            [pod(0), pod(1, is_ready=False, warning="FailedMount: no such map"), pod(2)],
            "broker 1: its pod starts (FailedMount: no such map)",
        ),
        ([pod(0), pod(2)], "broker 1: it has no pod yet"),
    ],
)
def test_a_broker_that_starts_or_stops_is_waited_for(pods: Any, waiting: str) -> None:
    """operator.md 5: never two; not ready but recovering: do not touch."""
    roll = plan(observed(pods, view=cluster(ORDERS)))
    assert restarted(roll) == []
    assert roll.waiting_on == waiting


def test_a_process_that_does_not_answer_is_told_as_such() -> None:
    """An image that hangs looks like a pod that starts, for as long as it is wanted."""
    pods = [pod(0), pod(1, is_ready=False, is_running=True, is_started=False), pod(2)]
    roll = plan(observed(pods, view=cluster(ORDERS)), {})
    assert roll.waiting_on == "broker 1: its pod runs and does not answer yet"


def test_a_broker_without_a_pod_is_told_with_what_keeps_it_from_being_made() -> None:
    """A priority class that does not exist, a quota: the StatefulSet's events name it."""
    podless = {1: "FailedCreate: no such class"}
    seen = observed([pod(0), pod(2)], view=cluster(ORDERS), podless=podless)
    assert plan(seen).waiting_on == "broker 1: it has no pod yet (FailedCreate: no such class)"


def test_a_ready_pod_whose_broker_is_fenced_is_waited_for() -> None:
    """Readiness only means that listeners are up."""
    roll = plan(observed(view=cluster(ORDERS, live=[0, 2], fenced=[1])))
    assert restarted(roll) == []
    assert roll.waiting_on == "broker 1: it does not take part in the cluster"


def test_the_lock_holds_until_the_broker_is_back_and_has_caught_up() -> None:
    """operator.md 5: wait ready, wait catch-up, check the node id, then the next."""
    behind = partition("orders", [0, 1, 2], [0, 2])
    stages = [
        (
            observed([pod(0), pod(1, uid="old", is_terminating=True), pod(2)], in_flight=FLYING),
            "its old pod stops",
        ),
        (observed([pod(0), pod(2)], view=cluster(behind), in_flight=FLYING), "it has no pod yet"),
        (
            observed(
                [pod(0), pod(1, is_ready=False), pod(2)], view=cluster(behind), in_flight=FLYING
            ),
            "its pod starts",
        ),
        (
            observed(view=cluster(behind, live=[0, 2], fenced=[1]), in_flight=FLYING),
            "it is not back in the cluster",
        ),
        (observed(view=None, in_flight=FLYING), "the cluster does not answer"),
        (observed(view=cluster(behind), in_flight=FLYING), "orders-0 catch up"),
    ]
    for seen, waiting in stages:
        roll = plan(seen, {2: ["x"]})
        assert (restarted(roll), roll.in_flight) == ([], FLYING)
        assert roll.waiting_on == f"broker 1: {waiting}"
    roll = plan(observed(view=cluster(ORDERS), in_flight=FLYING), {2: ["x"]})
    assert restarted(roll) == [2]


def test_a_pod_that_runs_another_broker_is_no_success() -> None:
    """operator.md 3.16: verify the identity."""
    seen = observed(view=cluster(ORDERS), in_flight=FLYING)
    wrong = {**seen.processes, 1: replace(seen.processes[1], node_id=5)}
    roll = plan(replace(seen, processes=wrong))
    assert roll.waiting_on == "broker 1: its pod runs broker 5"


def test_a_lock_whose_pod_was_never_deleted_is_decided_anew() -> None:
    """The operator died between the status and the delete; the gate may have closed since."""
    flying = InFlight(node_id=1, pod_uid="pod-1", reason="x")
    seen = observed(view=cluster(ORDERS), in_flight=flying)
    assert restarted(plan(seen)) == [1]
    short = cluster(partition("orders", [0, 1, 2], [0, 1]))
    roll = plan(observed(view=short, in_flight=flying), {1: ["x"]})
    assert (restarted(roll), roll.in_flight) == ([], None)


def test_stuck_pods_of_an_old_revision_are_replaced_all_of_them_at_once() -> None:
    """kubernetes#67250; together they may be the majority that one of them waits for."""
    stuck = [pod(node_id, is_ready=False, stuck="CrashLoopBackOff") for node_id in range(3)]
    roll = plan(observed(stuck))
    assert restarted(roll) == [0, 1, 2]
    assert all(one.is_stuck for one in roll.restarts)


def test_brokers_that_serve_beside_a_container_that_crashes_are_replaced_one_at_a_time() -> None:
    """A sidecar that crashes on all nodes makes all pods stuck, and takes no broker away."""
    pods = [pod(n, is_ready=False, is_running=True, stuck="container proxy: x") for n in range(3)]
    serving = observed().processes
    seen = observed(pods, view=cluster(ORDERS), processes=serving)
    assert restarted(plan(seen)) == [1]
    assert plan(seen).restarts[0].grace_seconds is None
    going = observed(
        [pods[0], replace(pods[1], is_terminating=True), pods[2]],
        view=cluster(ORDERS),
        processes=serving,
    )
    assert restarted(plan(going)) == []
    behind = cluster(partition("orders", [0, 1, 2], [0, 2]))
    assert restarted(plan(observed(pods, view=behind, processes=serving))) == [1]
    assert restarted(plan(observed(pods, view=behind, processes=serving), {0: ["x"]})) == []
    silent = observed(pods, view=cluster(ORDERS), processes={})
    assert restarted(plan(silent)) == [], "all of them are live, and nobody tells more"


def test_a_broker_that_the_kubelet_finds_ready_serves_also_when_the_operator_is_cut_off() -> None:
    """Story 80115: brokers beside a crashing container were taken for gone, and two stopped."""
    lost = pod(1, is_ready=False, node="", is_unschedulable=True, stuck="Unschedulable")
    serving = pod(2, is_ready=False, is_broker_ready=True, stuck="container proxy: x")
    roll = plan(observed([pod(0), lost, serving], processes={}))
    assert restarted(roll) == [1]


def test_a_container_that_was_started_again_holds_the_roll_up_until_it_has_run_for_a_while() -> (
    None
):
    """A sidecar that crashes makes its pod ready for a moment each time: the next would follow."""
    flapping = pod(1, unsettled="container proxy ended with exit code 1", settles=NOW + MOMENT)
    roll = plan(observed([pod(0), flapping, pod(2)], view=cluster(ORDERS)), {2: ["x"]})
    assert restarted(roll) == []
    assert roll.waiting_on == (
        "broker 1: container proxy ended with exit code 1, and was started again less than a minute"
        " ago"
    )
    settled = replace(flapping, settles=NOW)
    assert restarted(
        plan(observed([pod(0), settled, pod(2)], view=cluster(ORDERS)), {2: ["x"]})
    ) == [2]


def test_a_broker_whose_container_crashes_goes_first_where_it_has_to_be_restarted() -> None:
    """What makes it well again waits for nothing but what any restart waits for."""
    flapping = pod(2, unsettled="container proxy ended with exit code 1", settles=NOW + MOMENT)
    seen = observed([pod(0), pod(1), flapping], view=cluster(ORDERS))
    assert restarted(plan(seen)) == [2]
    short = cluster(ORDERS, partition("short", [0, 1, 2], [1, 2]))
    blocked = plan(replace(seen, cluster=short))
    assert restarted(blocked) == []
    assert blocked.waiting_on == "broker 2: short-0 cannot spare it"


def test_a_process_that_has_never_answered_has_little_time_to_end() -> None:
    """One that hangs would be away for all of terminationGracePeriodSeconds."""
    hung = pod(1, is_ready=False, is_running=True, is_started=False)
    seen = observed([pod(0), hung, pod(2)], view=cluster(ORDERS, live=[0, 2]), in_flight=FLYING)
    (restart,) = plan(seen, {1: ["image changed"]}).restarts
    assert restart.grace_seconds == UNANSWERED_GRACE_SECONDS
    answering = {**seen.processes, 1: replace(seen.processes[0], node_id=1, is_fenced=True)}
    (restart,) = plan(replace(seen, processes=answering), {1: ["image changed"]}).restarts
    assert restart.grace_seconds is None


def test_a_stuck_pod_is_replaced_while_ready_ones_wait() -> None:
    """operator.md 5: unready first."""
    pods = [pod(0), pod(1), pod(2, is_ready=False, stuck="ImagePullBackOff")]
    assert restarted(plan(observed(pods, view=cluster(ORDERS, live=[0, 1])))) == [2]


def test_a_stuck_pod_of_the_present_revision_stops_the_roll() -> None:
    """operator.md 5: a restart would not help it, and the next broker would end the same way."""
    pods = [pod(0), pod(1), pod(2, is_ready=False, stuck="CrashLoopBackOff: exit code 1 (Error)")]
    roll = plan(observed(pods, view=cluster(ORDERS)), {0: ["x"], 1: ["x"]})
    assert restarted(roll) == []
    assert roll.stalled == "broker 2 cannot start: CrashLoopBackOff: exit code 1 (Error)"


@pytest.mark.parametrize(
    ("spec", "waiting", "expected"),
    [
        (replace(SPEC, is_paused=True), "the Broker is paused", []),
        (replace(SPEC, update_policy=UpdatePolicy.PAUSED), "updatePolicy is Paused", []),
        (replace(SPEC, update_policy=UpdatePolicy.ON_APPROVAL), "approval of plan h1", []),
        (
            replace(SPEC, update_policy=UpdatePolicy.ON_APPROVAL, approved_hash="old"),
            "approval of plan h1",
            [],
        ),
        (replace(SPEC, update_policy=UpdatePolicy.ON_APPROVAL, approved_hash="h1"), "", [1]),
    ],
)
def test_the_policy_decides_whether_restarts_happen(
    spec: BrokerSpec, waiting: str, expected: list[int]
) -> None:
    """operator.md 8.6."""
    roll = plan(observed(view=cluster(ORDERS)), ALL, spec)
    assert (restarted(roll), roll.waiting_on) == (expected, waiting)


def test_without_an_answer_or_a_controller_no_ready_broker_is_touched() -> None:
    """operator.md 5: prove that brokers answer before acting."""
    assert plan(observed()).waiting_on == "the brokers do not answer"
    roll = plan(observed(view=cluster(ORDERS, controller_id=None)))
    assert (restarted(roll), roll.waiting_on) == ([], "no broker leads the control plane")


def test_a_parked_broker_is_not_waited_for() -> None:
    """operator.md 3.17."""
    parked = replace(SPEC, parked=frozenset({1}))
    pods = [pod(0), pod(1, is_ready=False, is_gated=True, node=""), pod(2)]
    spare = partition("orders", [0, 2], [0, 2], in_sync_min=1)
    roll = plan(observed(pods, view=cluster(spare, live=[0, 2])), {2: ["x"]}, parked)
    assert restarted(roll) == [2]
    flying = replace(FLYING, pod_uid="before")
    arrived = observed(pods, view=cluster(spare, live=[0, 2]), in_flight=flying)
    assert plan(arrived, {}, parked).in_flight is None


@pytest.mark.parametrize(
    ("replicas", "in_sync", "in_sync_min", "may_go"),
    [
        ([0, 1, 2], [0, 1, 2], 2, True),
        ([0, 1, 2], [0, 1], 2, False),
        ([0, 1, 2], [1, 2], 2, True),
        ([0, 1, 2], [1], 2, False),
        ([0, 1, 2], [0], 1, False),
        ([0, 1], [0, 1], 2, True),
        ([0, 1], [0], 2, False),
        ([0, 1], [1], 2, True),
        ([0, 1, 2], [0, 1], 3, True),
        ([0, 1, 2], [0], 3, False),
        ([0], [0], 1, True),
        ([0], [0], 2, True),
        ([1, 2], [1, 2], 2, True),
    ],
)
def test_the_gate_for_each_partition_is_that_of_the_reference(
    replicas: list[int], in_sync: list[int], in_sync_min: int, may_go: bool
) -> None:
    """operator.md 5, the broker gate; the broker is 0."""
    one = partition("orders", replicas, in_sync, in_sync_min=in_sync_min)
    assert (blocking(cluster(one), 0) == []) is may_go


@pytest.mark.parametrize(
    ("in_sync", "live", "may_go"),
    [
        ([0], [0, 1, 2], True),
        # It starts, or the next one is being elected.
        ([0], [1, 2], False),
        ([0, 1], [0, 1, 2], False),
    ],
)
def test_a_replica_that_leads_nothing_for_want_of_its_disk_keeps_no_broker(
    in_sync: list[int], live: list[int], may_go: bool
) -> None:
    """operator.md 5: a volume that was taken away, and is declared again, comes with a restart,
    which waited for what was on it."""
    one = replace(partition("orders", [1, 2, 0], in_sync, in_sync_min=2), leader=None)
    fenced = [node_id for node_id in range(3) if node_id not in live]
    assert (blocking(cluster(one, live=live, fenced=fenced), 0) == []) is may_go


@pytest.mark.parametrize(
    ("eligible", "live", "may_go"),
    [
        ([0], [0, 1, 2], True),
        ([0], [1, 2], False),
        ([0, 1], [0, 1, 2], False),
        # Logs are compared, and nobody knows who is to lead.
        ([], [0, 1, 2], False),
    ],
)
def test_a_replica_without_its_disk_is_eligible_at_most_where_brokers_tell_who_is(
    eligible: list[int], live: list[int], may_go: bool
) -> None:
    """Whoever leaves an ISR as its last member is eligible from then on, and the ISR empty."""
    one = replace(partition("orders", [1, 2, 0], []), eligible=frozenset(eligible))
    fenced = [node_id for node_id in range(3) if node_id not in live]
    assert (blocking(cluster(one, live=live, fenced=fenced), 0) == []) is may_go


def test_partitions_without_a_spare_replica_are_found_for_the_warning() -> None:
    """operator.md 3.5."""
    alone = [partition(f"t{number}", [0], in_sync_min=1) for number in range(7)]
    found = unguarded(cluster(*alone, ORDERS))
    assert len(found) == 7
    assert named(found) == "t0-0, t1-0, t2-0, t3-0, t4-0 and 2 more"


@pytest.mark.parametrize("state", ["STARTING", "RUNNING", "RECOVERY", None])
def test_a_pod_in_flight_that_is_not_wanted_any_more_is_not_waited_for(state: str | None) -> None:
    """Row 5 of the findings: an image that hangs could not be taken back for an hour."""
    pods = [pod(0), pod(1, is_ready=False, is_started=False), pod(2)]
    seen = observed(pods, view=cluster(ORDERS, live=[0, 2], fenced=[1]), in_flight=FLYING)
    if state is not None:
        process = replace(seen.processes[0], node_id=1, state=state, is_fenced=True)
        seen = replace(seen, processes={**seen.processes, 1: process})
    roll = plan(seen, {1: ["image changed"]})
    assert restarted(roll) == ([] if state == "RECOVERY" else [1])
    assert restarted(plan(seen, {0: ["image changed"]})) == []


@pytest.mark.parametrize("is_another_down", [False, True])
def test_a_pod_in_flight_that_takes_part_already_goes_only_if_it_can_be_spared(
    is_another_down: bool,
) -> None:
    """Story 2042 of the simulator: its pod was not known to be ready, and two others started."""
    last = pod(2, is_ready=not is_another_down)
    seen = observed([pod(0), pod(1, is_ready=False), last], view=cluster(ORDERS), in_flight=FLYING)
    process = replace(seen.processes[0], node_id=1, state="RUNNING")
    seen = replace(seen, processes={**seen.processes, 1: process})
    roll = plan(seen, {1: ["image changed"]})
    assert restarted(roll) == ([] if is_another_down else [1])


def test_who_has_answered_once_and_is_not_in_flight_is_waited_for() -> None:
    """It may be fenced for a moment, and may be what a partition needs."""
    pods = [pod(0), pod(1, is_ready=False), pod(2)]
    assert restarted(plan(observed(pods, view=cluster(ORDERS)))) == []


def test_a_pod_that_starts_is_not_replaced_by_a_plan_that_waits_for_approval() -> None:
    """With OnApproval nothing of the new revision comes before somebody says so."""
    pods = [pod(0), pod(1, is_ready=False, is_started=False), pod(2)]
    seen = observed(pods, view=cluster(ORDERS, live=[0, 2], fenced=[1]), in_flight=FLYING)
    spec = replace(SPEC, update_policy=UpdatePolicy.ON_APPROVAL)
    assert restarted(plan(seen, {1: ["x"]}, spec)) == []
    assert restarted(plan(seen, {1: ["x"]}, replace(spec, approved_hash="h1"))) == [1]

"""What is said to the eviction of a broker: the table."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from barnabas_operator.broker_spec import BrokerSpec
from barnabas_operator.reconcile.broker.drain_request import DrainRequest
from barnabas_operator.reconcile.broker.eviction_gate import Ruling, Verdict, judge
from barnabas_operator.reconcile.broker.observed import (
    InFlight,
    Observed,
)
from tests.operator.reconcile.broker.views import (
    SPEC,
    cluster,
    members,
    observed,
    partition,
    pod,
)

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
HOUR_SECONDS = 3600.0
ORDERS = partition("orders", [0, 1, 2])
SHORT = partition("orders", [0, 1, 2], [0, 1])
MEMBERS = members(0, 1, 2)


def eviction(
    seen: Observed, *, spec: BrokerSpec = SPEC, waited_seconds: float = 0.0, node_id: int = 1
) -> Verdict:
    """The verdict on a broker that has been asked to go for so long."""
    since = NOON - timedelta(seconds=waited_seconds)
    return judge(
        spec,
        seen,
        node_id,
        request=DrainRequest(since=since, last=NOON),
        now=NOON,
        patience_seconds=HOUR_SECONDS,
    )


def test_a_broker_that_can_be_spared_may_go() -> None:
    """It gives its leaderships away while its pod stops, as with every restart."""
    seen = observed(view=cluster(ORDERS, members=MEMBERS))
    assert [eviction(seen, node_id=one).ruling for one in range(3)] == [Ruling.SAFE] * 3


@pytest.mark.parametrize(
    ("seen", "waiting_on"),
    [
        (observed(view=cluster(SHORT)), "broker 1: orders-0 cannot spare it"),
        (
            observed(view=cluster(ORDERS, members=members(0, 1, 2, in_touch=[0, 1]))),
            "broker 1: of the metadata log's members 0, 1, 2 only 0 would be left",
        ),
        (
            observed([pod(0, is_terminating=True), pod(1), pod(2)], view=cluster(ORDERS)),
            "broker 0: its pod stops",
        ),
        (
            observed([pod(0), pod(1), pod(2, is_ready=False)], view=cluster(ORDERS)),
            "broker 2: its pod starts",
        ),
        (observed([pod(0), pod(1)], view=cluster(ORDERS)), ""),
        (
            observed(view=cluster(ORDERS, live=[0, 1], fenced=[2])),
            "broker 2: it does not take part in the cluster",
        ),
        # It may be recovering its logs, and evicting it would make it begin again.
        (
            observed([pod(0), pod(1, is_ready=False), pod(2)], view=cluster(ORDERS)),
            "broker 1: its pod starts",
        ),
        (
            observed(
                view=cluster(partition("orders", [0, 1, 2], [1, 2])),
                in_flight=InFlight(node_id=0, pod_uid="old", reason="x"),
            ),
            "broker 0: orders-0 catch up",
        ),
        (observed(view=None), "the brokers do not answer"),
        (observed(view=cluster(ORDERS, controller_id=None)), "no broker leads the control plane"),
    ],
)
def test_a_broker_is_kept_for_what_a_restart_waits_for(seen: Observed, waiting_on: str) -> None:
    """operator.md 4, row Eviction: the same gate as that of the roll, and it says what it is."""
    expected = Ruling.DENIED if waiting_on else Ruling.SAFE
    assert eviction(seen) == Verdict(ruling=expected, waiting_on=waiting_on)


def test_patience_ends() -> None:
    """operator.md 3.23: drains ignore budgets after an hour or two; better let go than be ended."""
    seen = observed(view=cluster(SHORT))
    assert eviction(seen, waited_seconds=HOUR_SECONDS - 1).ruling is Ruling.DENIED
    assert eviction(seen, waited_seconds=HOUR_SECONDS) == Verdict(
        ruling=Ruling.OUT_OF_PATIENCE, waiting_on="broker 1: orders-0 cannot spare it"
    )


@pytest.mark.parametrize(
    ("fields", "ruling"),
    [
        ({"is_node_lost": True}, Ruling.NODE_LOST),
        ({"is_terminating": True}, Ruling.SERVES_NOBODY),
        ({"is_ready": False, "node": ""}, Ruling.SERVES_NOBODY),
        ({"is_ready": False, "is_gated": True}, Ruling.SERVES_NOBODY),
        ({"is_ready": False, "stuck": "ImagePullBackOff"}, Ruling.SERVES_NOBODY),
        # Stuck once, and ready by now.
        ({"is_ready": True, "stuck": "CrashLoopBackOff"}, Ruling.DENIED),
    ],
)
def test_nothing_is_kept_where_that_protects_nothing(fields: Any, ruling: Ruling) -> None:
    """A pod on a dead node, or one that serves nobody, is better off elsewhere."""
    pods = [pod(0), pod(1, **fields), pod(2)]
    assert eviction(observed(pods, view=cluster(SHORT))).ruling is ruling


def test_a_broker_without_a_pod_or_that_is_paused_or_elsewhere_is_left_alone() -> None:
    """Pause is honoured everywhere: who pauses wants no interference."""
    seen = observed(view=cluster(SHORT))
    paused, elsewhere = replace(SPEC, is_paused=True), replace(SPEC, is_elsewhere=True)
    assert eviction(seen, spec=paused).ruling is Ruling.LEFT_ALONE
    assert eviction(seen, spec=elsewhere).ruling is Ruling.LEFT_ALONE
    assert eviction(seen, node_id=7).ruling is Ruling.SERVES_NOBODY


def test_a_parked_broker_keeps_nobody() -> None:
    """It is not expected to serve."""
    pods = [pod(0), pod(1), pod(2, is_ready=False, is_gated=True)]
    seen = observed(pods, view=cluster(partition("orders", [0, 1], in_sync_min=1)))
    assert eviction(seen, spec=replace(SPEC, parked=frozenset({2}))).ruling is Ruling.SAFE


def test_a_lone_broker_may_go() -> None:
    """No wait would help it: its partitions have no other replica at any time."""
    seen = observed(
        [pod(0)],
        view=cluster(partition("orders", [0], in_sync_min=1), live=[0], members=members(0)),
    )
    assert eviction(seen, node_id=0).ruling is Ruling.SAFE


def test_every_ruling_but_one_lets_go() -> None:
    """The API server is told one bit."""
    assert [ruling for ruling in Ruling if not ruling.lets_go] == [Ruling.DENIED]


def test_a_broker_that_serves_beside_a_container_that_cannot_start_is_kept_like_others() -> None:
    """Found by reading, 2: such pods were let go at once, all of them."""
    stuck = {"is_ready": False, "is_running": True, "stuck": "container proxy: CrashLoopBackOff"}
    pods = [pod(one, **stuck) for one in range(3)]
    seen = observed(pods, view=cluster(ORDERS), processes=observed().processes)
    assert eviction(seen).ruling is Ruling.DENIED
    assert eviction(replace(seen, processes={}, cluster=None)).ruling is Ruling.SERVES_NOBODY

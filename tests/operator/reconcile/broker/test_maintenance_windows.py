"""Restarts for changes wait for a maintenance window, and nothing else does."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from barnabas_operator.broker_spec import BrokerSpec
from barnabas_operator.reconcile.broker.broker_plan import BrokerPlan, closed_windows, plan_broker
from barnabas_operator.reconcile.broker.observed import (
    PodView,
)
from barnabas_operator.spec import SpecError
from tests.operator.reconcile.broker.views import IMAGE, NOW, SPEC, cluster, observed, pod

SATURDAY = {"schedule": "0 2 * * 6", "durationMinutes": 240}
BERLIN = {"schedule": "30 2 * * *", "durationMinutes": 60, "timeZone": "Europe/Berlin"}


def declared(*windows: dict[str, Any]) -> BrokerSpec:
    manifest = {
        "metadata": {"name": "demo", "namespace": "kafka", "uid": "u1"},
        "spec": {"maintenance": {"windows": list(windows)}},
    }
    return replace(SPEC, windows=BrokerSpec.from_manifest(manifest).windows)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("windows", "now", "opens"),
    [
        ([], "2026-11-23T12:00", ""),
        ([SATURDAY], "2026-11-23T12:00", "2026-11-28T02:00Z"),
        ([SATURDAY], "2026-11-28T01:59", "2026-11-28T02:00Z"),
        ([SATURDAY], "2026-11-28T02:00", ""),
        ([SATURDAY], "2026-11-28T05:59", ""),
        ([SATURDAY], "2026-11-28T06:00", "2026-12-05T02:00Z"),
        ([SATURDAY, BERLIN], "2026-11-23T12:00", "2026-11-24T01:30Z"),
        ([SATURDAY, BERLIN], "2026-11-24T01:30", ""),
        ([BERLIN], "2026-07-01T00:29", "2026-07-01T00:30Z"),  # summer
    ],
)
def test_a_window_opens_by_its_schedule_in_its_time_zone(
    windows: list[dict[str, Any]], now: str, opens: str
) -> None:
    """Issue 17: as users of CronJobs write it."""
    told = f"the next maintenance window, {opens}" if opens else ""
    assert closed_windows(declared(*windows).windows, at(now)) == told


@pytest.mark.parametrize(
    ("window", "message"),
    [
        (
            {**SATURDAY, "schedule": "61 2 * * 6"},
            r"windows.1.schedule: .61 2 \* \* 6. is no schedule",
        ),
        (
            {**SATURDAY, "timeZone": "Mars/North"},
            "windows.1.timeZone: 'Mars/North' is no time zone",
        ),
        ({**SATURDAY, "timeZone": "../etc"}, "windows.1.timeZone: '../etc' is no time zone"),
        ({**SATURDAY, "timeZone": "America"}, "windows.1.timeZone: 'America' is no time zone"),
        ({**SATURDAY, "timeZone": "."}, "windows.1.timeZone: '.' is no time zone"),
        ({**SATURDAY, "schedule": "0 0 */5 2 1#5"}, "windows.1.schedule: .* never opens"),
    ],
)
def test_a_window_that_cannot_be_meant_is_refused(window: dict[str, Any], message: str) -> None:
    """The schema cannot know; the status tells it."""
    with pytest.raises(SpecError, match=message):
        declared(SATURDAY, window)


def plan(pods: list[PodView], now: datetime, **changes: Any) -> BrokerPlan:
    spec = replace(declared(SATURDAY), **changes)
    return plan_broker(spec, observed(pods, view=cluster()), now=now, default_image=IMAGE)


def test_restarts_for_changes_wait_until_a_window_opens() -> None:
    """They are shown meanwhile, and one restart that is under way is not held up."""
    pods = [pod(node_id, revision={}) for node_id in range(3)]
    closed = plan(pods, NOW)
    assert closed.roll.restarts == ()
    assert closed.waiting_on == "the next maintenance window, 2026-11-28T02:00Z"
    assert {need.node_id for need in closed.roll.needs} == {0, 1, 2}
    opened = plan(pods, NOW + timedelta(days=4, hours=15))
    assert [restart.node_id for restart in opened.roll.restarts] == [1]


def test_what_somebody_asks_for_waits_for_no_window() -> None:
    """A restart by annotation, and parking, are meant now; the others go on waiting."""
    pods = [pod(0, revision={}), pod(1, revision={}), pod(2, restart_asked="now")]
    (restart,) = plan(pods, NOW).roll.restarts
    assert restart.node_id == 2
    pods = [pod(node_id, revision={}) for node_id in range(3)]
    (restart,) = plan(pods, NOW, parked=frozenset((2,))).roll.restarts
    assert restart.node_id == 2


def test_a_pod_that_cannot_start_is_replaced_at_any_time() -> None:
    """It serves nobody: a bad spec is taken back at once."""
    pods = [pod(0), pod(1), pod(2, revision={}, is_ready=False, stuck="ImagePullBackOff")]
    (restart,) = plan(pods, NOW).roll.restarts
    assert (restart.node_id, restart.is_stuck) == (2, True)

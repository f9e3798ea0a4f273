"""`resource_rows`: what is not told is unknown, and a plan names what it waits for (CON-122)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas_console.kubernetes.resource_rows import (
    broker_row,
    event_rows,
    group_row,
    pod_row,
    topic_row,
    user_row,
)


def condition(name: str, status: str, message: str = "") -> dict[str, Any]:
    return {"type": name, "status": status, "reason": "Because", "message": message}


def broker(**parts: Any) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "shop", "name": "demo", "generation": 2, "annotations": {}},
        "spec": {"updatePolicy": "OnApproval"},
        "status": {"observedGeneration": 2, "conditions": [condition("Ready", "True", "all")]},
        **parts,
    }


@pytest.mark.parametrize(
    ("conditions", "generation", "state"),
    [
        ([], 2, "unknown"),
        ([condition("Ready", "True")], 2, "fine"),
        ([condition("Ready", "True")], 1, "working"),  # told of a former spec
        ([condition("Ready", "False")], 2, "critical"),
        ([condition("Ready", "False"), condition("Progressing", "True")], 2, "working"),
        ([condition("Ready", "True"), condition("Degraded", "True")], 2, "warning"),
        ([condition("Ready", "False"), condition("Degraded", "True")], 2, "critical"),
        ([condition(one, "True") for one in ("Degraded", "Progressing")], 2, "unknown"),
        (
            [
                condition("Ready", "False"),
                condition("Progressing", "True"),
                condition("Degraded", "True"),
            ],
            2,
            "critical",
        ),
    ],
)
def test_a_state_is_the_worst_that_is_told(
    conditions: list[dict[str, Any]], generation: int, state: str
) -> None:
    status = {"observedGeneration": generation, "conditions": conditions}
    assert broker_row(broker(status=status))["state"] == state


def test_what_served_and_does_not_is_told_with_both_reasons() -> None:
    """CON-122: a Broker none of whose brokers answers was a warning."""
    damaged = condition("Degraded", "True", "no broker answers")
    waiting = condition("Ready", "False", "waits for broker 0")
    for ready, sentence in (
        (waiting, "no broker answers; waits for broker 0"),
        (condition("Ready", "False", "no broker answers"), "no broker answers"),
    ):
        status = {"observedGeneration": 2, "conditions": [damaged, ready]}
        assert broker_row(broker(status=status))["sentence"] == sentence


def test_a_plan_that_waits_for_a_yes_has_the_command_for_it() -> None:
    """T9: the approve command of the page's drawing."""
    plan = {
        "hash": "9f3c",
        "summary": "restart 2",
        "restarts": [{"broker": 2, "reasons": ["image"]}],
    }
    waiting = broker(status={"observedGeneration": 2, "plan": plan})
    row = broker_row(waiting)
    assert row["plan"]["restarts"] == [{"broker": 2, "reasons": ["image"]}]
    assert row["approve_command"] == (
        "kubectl -n shop annotate --overwrite brokers.barnabas.dev demo barnabas.dev/approve=9f3c"
    )
    approved = {**waiting["metadata"], "annotations": {"barnabas.dev/approve": "9f3c"}}
    assert broker_row({**waiting, "metadata": approved})["approve_command"] is None
    assert broker_row({**waiting, "spec": {}})["approve_command"] is None


def test_a_broker_says_what_it_waits_for() -> None:
    one = {
        "id": 1,
        "waitingOn": "orders-0 in sync",
        "drainRequested": "2026-11-26T12:04:00Z",
        "drainDeadline": "2026-11-26T13:04:00Z",
    }
    status = {
        "brokers": [one],
        "restarting": {"broker": 1, "reason": "image"},
        "decommission": {"broker": 2, "partitionsLeft": 7},
    }
    row = broker_row(broker(status=status))
    assert row["brokers"][0]["waiting_on"] == "orders-0 in sync"
    assert row["brokers"][0]["drain_requested_ms"] == 1_795_694_640_000
    assert row["brokers"][0]["drain_deadline_ms"] == 1_795_694_640_000 + 3_600_000
    assert row["brokers"][0]["safe_to_drain"] is None
    assert row["restarting"] == {"broker": 1, "reason": "image"}
    assert row["decommission"]["partitions_left"] == 7


def test_events_come_newest_first_and_are_few() -> None:
    def event(second: int) -> dict[str, Any]:
        return {"lastTimestamp": f"2026-11-26T12:00:{second:02}Z", "message": str(second)}

    rows = event_rows([event(second) for second in range(60)] * 5)
    assert len(rows) == 200
    assert rows[0]["message"] == "59"


def test_a_pod_says_why_it_does_not_start() -> None:
    waiting = {"state": {"waiting": {"reason": "ImagePullBackOff"}}, "restartCount": 3}
    status = {"phase": "Pending", "containerStatuses": [waiting]}
    row = pod_row({"metadata": {"name": "demo-0"}, "status": status})
    assert (row["reason"], row["ready"], row["restarts"]) == ("ImagePullBackOff", False, 3)


_KEYS = ["metadata", "status", "spec", "conditions", "plan", "restarts", "brokers", "type"]


# Not a lambda: Hypothesis parses the source of one, which CPython 3.11 fails at now and then.
def _containers(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    keys = st.sampled_from(_KEYS) | st.text(max_size=5)
    return st.lists(children, max_size=3) | st.dictionaries(keys, children, max_size=4)


_scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=20)
_json = st.recursive(_scalars, _containers, max_leaves=20)


@given(st.dictionaries(st.sampled_from(["metadata", "spec", "status"]), _json))
def test_whatever_an_object_holds_it_is_a_row(thing: dict[str, Any]) -> None:
    for row_of in (broker_row, topic_row, group_row, user_row, pod_row):
        assert isinstance(row_of(thing), dict)
    assert len(event_rows([thing])) == 1

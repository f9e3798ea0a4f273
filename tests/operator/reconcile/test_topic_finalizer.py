"""When the finalizer is there, and when it goes."""

from typing import Any

import pytest

from barnabas_operator.reconcile.topic_finalizer import (
    FINALIZER,
    FinalizerChange,
    finalizer_change,
    finalizer_patch,
    removal_without_cluster,
)
from barnabas_operator.spec import DeletionPolicy, TopicSpec


def manifest(*finalizers: str, **metadata: Any) -> dict[str, Any]:
    found = {"name": "a", "resourceVersion": "7", "finalizers": list(finalizers)}
    return {"metadata": {**found, **metadata}}


@pytest.mark.parametrize(
    ("policy", "finalizers", "change"),
    [
        (DeletionPolicy.RETAIN, (), FinalizerChange.NONE),
        (DeletionPolicy.RETAIN, ("other",), FinalizerChange.NONE),
        (DeletionPolicy.RETAIN, (FINALIZER,), FinalizerChange.REMOVE),
        (DeletionPolicy.DELETE, (), FinalizerChange.ADD),
        (DeletionPolicy.DELETE, (FINALIZER,), FinalizerChange.NONE),
    ],
)
def test_only_resources_that_delete_their_topic_are_marked(
    policy: DeletionPolicy, finalizers: tuple[str, ...], change: FinalizerChange
) -> None:
    """operator.md 3, pain 1."""
    spec = TopicSpec(resource="a", topic="a", deletion_policy=policy)
    assert finalizer_change(manifest(*finalizers), spec) is change


def test_a_resource_on_its_way_out_gets_no_mark() -> None:
    """The API server would refuse a finalizer then."""
    spec = TopicSpec(resource="a", topic="a", deletion_policy=DeletionPolicy.DELETE)
    going = manifest(deletionTimestamp="2030-01-01T00:00:00Z")
    assert finalizer_change(going, spec) is FinalizerChange.NONE


def test_finalizers_of_others_stay() -> None:
    """A merge patch replaces the whole list, so it is bound to the version it was made from."""
    put = finalizer_patch(manifest("other"), FinalizerChange.ADD)["metadata"]
    assert put == {"resourceVersion": "7", "finalizers": ["other", FINALIZER]}
    taken = finalizer_patch(manifest(FINALIZER, "other"), FinalizerChange.REMOVE)["metadata"]
    assert taken["finalizers"] == ["other"]
    assert (
        finalizer_patch(manifest(FINALIZER), FinalizerChange.REMOVE)["metadata"]["finalizers"]
        is None
    )


@pytest.mark.parametrize(
    ("gone", "going", "seconds", "reason"),
    [
        (True, False, 0, "BrokerGone"),
        (False, True, 0, "NamespaceTerminating"),
        (False, False, 61, "BrokersUnreachable"),
        (False, False, 59, None),
    ],
)
def test_a_resource_is_let_go_as_soon_as_waiting_is_pointless(
    gone: bool, going: bool, seconds: float, reason: str | None
) -> None:
    """operator.md 2, the row about clusters that are gone."""
    removal = removal_without_cluster(
        is_broker_gone=gone,
        is_namespace_going=going,
        unreachable_seconds=seconds,
        patience_seconds=60,
    )
    assert (None if removal is None else removal.reason) == reason


@pytest.mark.parametrize(("seconds", "is_removed"), [(59, False), (61, True)])
def test_patience_with_brokers_that_answer_and_do_not_delete_counts_from_the_deletion(
    seconds: float, is_removed: bool
) -> None:
    """Row 7 of the findings: without a controller a Topic waited for ever."""
    removal = removal_without_cluster(
        is_broker_gone=False,
        is_namespace_going=False,
        unreachable_seconds=0,
        patience_seconds=60,
        going_seconds=seconds,
        error="nobody leads",
    )
    assert (removal is not None) is is_removed
    assert removal is None or "nobody leads" in removal.message

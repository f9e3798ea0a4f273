"""When the finalizer is there, and when it goes."""

from typing import Any

import pytest

from barnabas_operator.reconcile.topic_finalizer import (
    FINALIZER,
    Mark,
    mark_of_living,
    patch_of,
    release_without_cluster,
)
from barnabas_operator.spec import DeletionPolicy, TopicSpec


def manifest(*finalizers: str, **metadata: Any) -> dict[str, Any]:
    found = {"name": "a", "resourceVersion": "7", "finalizers": list(finalizers)}
    return {"metadata": {**found, **metadata}}


@pytest.mark.parametrize(
    ("policy", "finalizers", "mark"),
    [
        (DeletionPolicy.RETAIN, (), Mark.LEAVE),
        (DeletionPolicy.RETAIN, ("other",), Mark.LEAVE),
        (DeletionPolicy.RETAIN, (FINALIZER,), Mark.TAKE_OFF),
        (DeletionPolicy.DELETE, (), Mark.PUT),
        (DeletionPolicy.DELETE, (FINALIZER,), Mark.LEAVE),
    ],
)
def test_only_resources_that_delete_their_topic_are_marked(
    policy: DeletionPolicy, finalizers: tuple[str, ...], mark: Mark
) -> None:
    """operator.md 3, pain 1."""
    spec = TopicSpec(resource="a", topic="a", deletion_policy=policy)
    assert mark_of_living(manifest(*finalizers), spec) is mark


def test_a_resource_on_its_way_out_gets_no_mark() -> None:
    """The API server would refuse a finalizer then."""
    spec = TopicSpec(resource="a", topic="a", deletion_policy=DeletionPolicy.DELETE)
    going = manifest(deletionTimestamp="2030-01-01T00:00:00Z")
    assert mark_of_living(going, spec) is Mark.LEAVE


def test_finalizers_of_others_stay() -> None:
    """A merge patch replaces the whole list, so it is bound to the version it was made from."""
    put = patch_of(manifest("other"), Mark.PUT)["metadata"]
    assert put == {"resourceVersion": "7", "finalizers": ["other", FINALIZER]}
    taken = patch_of(manifest(FINALIZER, "other"), Mark.TAKE_OFF)["metadata"]
    assert taken["finalizers"] == ["other"]
    assert patch_of(manifest(FINALIZER), Mark.TAKE_OFF)["metadata"]["finalizers"] is None


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
    release = release_without_cluster(
        is_broker_gone=gone,
        is_namespace_going=going,
        unreachable_seconds=seconds,
        patience_seconds=60,
    )
    assert (None if release is None else release.reason) == reason


@pytest.mark.parametrize(("seconds", "is_let_go"), [(59, False), (61, True)])
def test_patience_with_brokers_that_answer_and_do_not_delete_counts_from_the_deletion(
    seconds: float, is_let_go: bool
) -> None:
    """Row 7 of the findings: without a controller a Topic waited for ever."""
    release = release_without_cluster(
        is_broker_gone=False,
        is_namespace_going=False,
        unreachable_seconds=0,
        patience_seconds=60,
        going_seconds=seconds,
        error="nobody leads",
    )
    assert (release is not None) is is_let_go
    assert release is None or "nobody leads" in release.message

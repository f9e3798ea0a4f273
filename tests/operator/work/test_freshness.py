"""Whether watching lags behind what lists show."""

from typing import Any

from barnabas_operator.kubernetes.kinds import POD, TOPIC
from barnabas_operator.work.freshness import WatchFreshness


def manifest(uid: str, version: str) -> dict[str, Any]:
    return {"metadata": {"uid": uid, "resourceVersion": version}}


def test_a_version_that_watching_never_brings_is_lag() -> None:
    """operator.md 7, pitfall 10: a watch that has died says nothing by itself."""
    clock = [0.0]
    freshness = WatchFreshness([TOPIC], lambda: clock[0])
    freshness.on_event(TOPIC, manifest("a", "1"))
    freshness.listed(TOPIC, [manifest("a", "1")])
    clock[0] = 50
    assert freshness.behind_seconds == 0
    freshness.listed(TOPIC, [manifest("a", "2")])
    clock[0] = 110
    freshness.listed(TOPIC, [manifest("a", "2")])
    assert freshness.behind_seconds == 60
    freshness.on_event(TOPIC, manifest("a", "2"))
    assert freshness.behind_seconds == 0


def test_an_object_that_changes_all_the_time_is_no_lag_while_events_come() -> None:
    """A list may be ahead of the watch, and the watch of a list."""
    clock = [0.0]
    freshness = WatchFreshness([TOPIC], lambda: clock[0])
    for version in range(100):
        clock[0] += 30
        freshness.listed(TOPIC, [manifest("a", str(version + 1))])
        assert freshness.behind_seconds <= 30
        freshness.on_event(TOPIC, manifest("a", str(version)))


def test_what_is_deleted_or_not_watched_does_not_count() -> None:
    clock = [0.0]
    freshness = WatchFreshness([TOPIC], lambda: clock[0])
    freshness.listed(TOPIC, [manifest("a", "1")])
    freshness.listed(POD, [manifest("p", "1")])
    freshness.on_event(TOPIC, manifest("a", "2"), is_deleted=True)
    clock[0] = 1000
    assert freshness.behind_seconds == 0


def test_what_is_read_of_other_namespaces_does_not_count() -> None:
    """Else an operator of some namespaces would be restarted for ever."""
    clock = [0.0]
    freshness = WatchFreshness([TOPIC], lambda: clock[0], ["ours"])
    for namespace in ("ours", "theirs"):
        one = manifest(namespace, "1")
        one["metadata"]["namespace"] = namespace
        freshness.listed(TOPIC, [one])
    freshness.on_event(TOPIC, manifest("ours", "1"))
    clock[0] = 1000
    assert freshness.behind_seconds == 0


def test_what_was_deleted_before_a_list_that_still_had_it_is_forgotten_by_the_next_list() -> None:
    """Row 15 of the findings: the process was restarted five minutes after such a race."""
    clock = [0.0]
    freshness = WatchFreshness([TOPIC], lambda: clock[0])
    gone = manifest("a", "1")
    gone["metadata"]["namespace"] = "shop"
    freshness.on_event(TOPIC, gone)
    freshness.on_event(TOPIC, gone, is_deleted=True)
    freshness.listed(TOPIC, [gone])
    clock[0] = 100
    freshness.listed(TOPIC, [], "bank")
    freshness.listed(TOPIC, [], "shop", "app=some")
    assert freshness.behind_seconds == 100
    freshness.listed(TOPIC, [], "shop")
    assert freshness.behind_seconds == 0

"""Topics without a resource, shown on request."""

import re

import pytest

from barnabas_operator.reconcile.topic_discovery import (
    DISCOVERED_MAX,
    TopicDiscovery,
    discover,
    discovered_resource,
    patterns_of,
    resource_name,
)
from barnabas_operator.reconcile.topic_plan import plan_topics
from barnabas_operator.reconcile.topic_state import ObservedCluster
from barnabas_operator.spec import TopicSpec

BROKER = {
    "metadata": {
        "namespace": "ns",
        "name": "demo",
        "annotations": {"barnabas.dev/discover-topics": "a*, plain"},
    }
}


def shown(topic: str) -> TopicSpec:
    return TopicSpec(resource=f"ns/{topic}", topic=topic, is_discovered=True)


def test_what_is_undeclared_and_asked_for_is_added_and_the_rest_removed() -> None:
    assert patterns_of(BROKER) == ("a*", "plain")
    specs = [shown("a1"), shown("gone"), TopicSpec(resource="ns/x", topic="a2"), shown("a2")]
    found = discover(patterns_of(BROKER), ["a1", "a2", "a3", "other", "plain"], specs)
    assert found == TopicDiscovery(added=("a3", "plain"), removed=("ns/a2", "ns/gone"))


def test_nothing_is_shown_unless_that_is_asked_for() -> None:
    assert patterns_of({"metadata": {}}) == ()
    assert discover((), ["a"], [shown("a")]) == TopicDiscovery(removed=("ns/a",))


def test_a_list_of_resources_is_no_place_for_tens_of_thousands() -> None:
    found = discover(("*",), map(str, range(10_000)), [])
    assert len(found.added) == DISCOVERED_MAX


def test_a_shown_topic_is_never_acted_on_and_a_declaration_goes_before_it() -> None:
    """It would create a topic that somebody has deleted, and win over whoever declares it."""
    empty = ObservedCluster(broker_ids=(1,), topics={})
    assert plan_topics([shown("a")], empty).steps == ()
    declared = TopicSpec(resource="ns/mine", topic="a", age=("2099", 0, "ns/mine"))
    plan = plan_topics([shown("a"), declared], empty)
    assert [finding.resource for finding in plan.findings] == ["ns/a"]
    assert len(plan.steps) == 1


@pytest.mark.parametrize(
    "topic", ["plain", "a.b-c", "Upper", "under_score", "_", "a..b", "x" * 249]
)
def test_every_topic_has_a_name_that_kubernetes_takes(topic: str) -> None:
    name = resource_name(topic)
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", name)
    assert len(name) <= 253
    assert (name == topic) == (topic in ("plain", "a.b-c"))


def test_names_that_look_alike_stay_apart() -> None:
    assert len({resource_name(topic) for topic in ("a_b", "a.b", "a-b", "A-b", "a__b")}) == 5


def test_the_resource_reads_back_as_what_it_shows() -> None:
    spec = TopicSpec.from_manifest(discovered_resource(BROKER, "Upper_Case"))
    assert (spec.topic, spec.broker, spec.is_discovered) == ("Upper_Case", "demo", True)

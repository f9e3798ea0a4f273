"""What the status of a Topic says."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from barnabas_operator import conditions
from barnabas_operator.reconcile.topic_state import (
    Finding,
    ObservedCluster,
    ObservedTopic,
    Reason,
)
from barnabas_operator.reconcile.topic_status import (
    TopicFacts,
    is_moving,
    is_ready,
    status_without_cluster,
    topic_status,
)
from barnabas_operator.spec import TopicSpec

NOW = datetime(2030, 1, 1, tzinfo=UTC)
SPEC = TopicSpec(resource="ns/orders", topic="orders", config={"retention.ms": "1"})
TOPIC = ObservedTopic(
    name="orders", topic_id="id", assignments=((1, 2), (2, 1)), config={"retention.ms": "1"}
)
FACTS = TopicFacts(spec=SPEC, generation=4, topic=TOPIC, size_bytes=1234, messages_per_second=12.3)


def status_of(facts: TopicFacts, old: dict[str, Any] | None = None) -> dict[str, Any]:
    topics = {} if facts.topic is None else {"orders": facts.topic}
    observed = ObservedCluster(broker_ids=(1, 2), topics=topics)
    return topic_status(facts, observed, old, NOW)


def reasons(status: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {one["type"]: (one["status"], one["reason"]) for one in status["conditions"]}


def finding(reason: Reason) -> Finding:
    return Finding(resource="ns/orders", topic="orders", reason=reason, message="because")


def test_a_topic_as_declared_is_ready_and_its_columns_are_filled() -> None:
    """operator.md 3, pain 13."""
    status = status_of(FACTS)
    assert reasons(status) == {"Ready": ("True", "AsDeclared")}
    del status["conditions"]
    assert status == {
        "observedGeneration": 4,
        "topicName": "orders",
        "topicId": "id",
        "origin": "Adopted",
        "partitions": 2,
        "replicas": 2,
        "leaders": "2/2",
        "underReplicatedPartitions": 0,
        "offlinePartitions": 0,
        "drift": "none",
        "config": {"retention.ms": "1"},
        "size": "1.2 KiB",
        "sizeBytes": 1200,
        "messagesPerSecond": "12",
    }


def test_the_same_facts_give_the_same_status_whatever_the_time() -> None:
    """operator.md 3, pain 9: an idle cluster is not written to."""
    first = status_of(FACTS)
    observed = ObservedCluster(broker_ids=(1, 2), topics={"orders": TOPIC})
    later = topic_status(FACTS, observed, first, NOW + timedelta(hours=1))
    assert later == first


def test_numbers_that_are_not_known_stay_what_they_were() -> None:
    """An operator that starts anew has measured nothing yet."""
    first = status_of(FACTS)
    unknown = replace(FACTS, size_bytes=None, messages_per_second=None)
    assert status_of(unknown, first) == first
    assert "size" not in status_of(unknown)
    assert "messagesPerSecond" not in status_of(unknown)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"topic": None}, {"Ready": ("False", "Creating"), "Reconciling": ("True", "Creating")}),
        (
            {"topic": replace(TOPIC, moving=1)},
            {"Ready": ("False", "Reassigning"), "Reconciling": ("True", "Reassigning")},
        ),
        (
            {"topic": replace(TOPIC, leaderless=1)},
            {"Ready": ("False", "WaitingForLeaders"), "Reconciling": ("True", "WaitingForLeaders")},
        ),
        ({"topic": replace(TOPIC, under_replicated=1)}, {"Ready": ("True", "AsDeclared")}),
        (
            {"failure": "no", "is_passing": True},
            {"Ready": ("False", "Retrying"), "Reconciling": ("True", "Retrying")},
        ),
        ({"failure": "no"}, {"Ready": ("False", "Refused"), "Stalled": ("True", "Refused")}),
        (
            {"findings": [finding(Reason.CONFLICT)]},
            {"Ready": ("False", "ResourceConflict"), "Stalled": ("True", "ResourceConflict")},
        ),
        (
            {"findings": [finding(Reason.DRIFT)]},
            {"DriftDetected": ("True", "DriftDetected"), "Ready": ("True", "AsDeclared")},
        ),
        (
            {"spec": replace(SPEC, is_discovered=True)},
            {"Ready": ("True", "Discovered")},
        ),
    ],
)
def test_each_fact_has_its_conditions(
    change: dict[str, Any], expected: dict[str, tuple[str, str]]
) -> None:
    """kstatus: Reconciling while it will change by itself, Stalled when it will not."""
    status = status_of(replace(FACTS, **change))
    assert reasons(status) == expected
    assert is_ready(status) == (expected["Ready"][0] == "True")
    assert is_moving(status) == ("Reconciling" in expected)
    assert all(one["observedGeneration"] == 4 for one in status["conditions"])


@pytest.mark.parametrize("old", [None, {"topicId": "id"}])
def test_a_topic_that_was_only_shown_was_there_before(old: dict[str, Any] | None) -> None:
    """Else it would go with its resource as soon as somebody has taken the label off; statuses of
    earlier releases did not say it.
    """
    shown = replace(FACTS, spec=replace(SPEC, is_discovered=True))
    assert status_of(shown, old)["origin"] == "Adopted"


def test_who_lost_a_conflict_shows_no_numbers_of_a_topic_that_is_not_its_own() -> None:
    status = status_of(replace(FACTS, findings=[finding(Reason.CONFLICT)]))
    assert set(status) == {"observedGeneration", "topicName", "conditions"}


def test_a_paused_topic_is_ready_only_if_nothing_waits() -> None:
    paused = replace(FACTS, spec=replace(SPEC, is_paused=True), findings=[finding(Reason.PAUSED)])
    assert reasons(status_of(paused)) == {
        "Paused": ("True", "Paused"),
        "Ready": ("True", "AsDeclared"),
    }
    waiting = replace(paused, spec=replace(paused.spec, partitions=5))
    status = status_of(waiting)
    assert reasons(status)["Ready"] == ("False", "Paused")
    stalled = next(one for one in status["conditions"] if one["type"] == "Stalled")
    assert stalled["message"].endswith("grow topic orders to 5 partitions")


def test_a_column_names_few_of_many_undeclared_settings_and_no_throttles() -> None:
    """operator.md 2: throttles of a running reassignment are not drift."""
    config = {f"setting.{number}": "x" for number in range(6)}
    config["leader.replication.throttled.replicas"] = "*"
    status = status_of(replace(FACTS, topic=replace(TOPIC, config=config)))
    assert status["drift"] == "setting.0,setting.1,setting.2,+3"


def test_what_was_seen_last_is_told_while_nobody_answers() -> None:
    first = status_of(FACTS)
    verdict = conditions.reconciling("BrokersUnreachable")
    status = status_without_cluster("orders", 5, verdict, first, NOW)
    assert status["leaders"] == "2/2"
    assert status["observedGeneration"] == 5
    assert reasons(status)["Ready"] == ("False", "BrokersUnreachable")


def test_the_status_has_no_field_that_the_crd_does_not_know() -> None:
    """The API server would drop it, and the operator would write it again for ever."""
    from barnabas_operator.crd import definition

    schema = definition("Topic")["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    known = set(schema["properties"]["status"]["properties"])
    moving = replace(FACTS, topic=replace(TOPIC, moving=1))
    assert set(status_of(FACTS)) | set(status_of(moving)) <= known

"""What a status says of a group: rounded, capped, and silent about what is not known."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from barnabas_operator.group_spec import GroupSpec, Thresholds
from barnabas_operator.reconcile.group.group_state import (
    ObservedGroup,
    ObservedGroups,
    Operation,
    Operations,
    Phase,
)
from barnabas_operator.reconcile.group.group_status import group_status, rounded
from barnabas_protocol.ids import TopicPartition
from tests.support.memory_groups import MemoryGroups

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SPEC = GroupSpec(resource="ns/billing", group_id="billing")


def status_of(
    observed: ObservedGroups, spec: GroupSpec = SPEC, operations: Operations | None = None
) -> dict[str, Any]:
    manifest = {"metadata": {"generation": 3}}
    made = group_status(
        manifest, spec, "kafka/main", operations or Operations(), (), observed, now=NOW
    )
    return {name: value for name, value in made.items() if value is not None}


def condition(status: dict[str, Any], type_: str) -> dict[str, Any]:
    (found,) = [one for one in status["conditions"] if one["type"] == type_]
    return dict(found)


@pytest.mark.parametrize(
    ("number", "expected"),
    [(0, 0), (99, 99), (100, 100), (1234, 1200), (1250, 1300), (98765, 99000), (None, None)],
)
def test_large_numbers_have_two_significant_digits(
    number: int | None, expected: int | None
) -> None:
    assert rounded(number) == expected


def test_lag_that_is_not_known_of_one_partition_is_not_told_of_the_group() -> None:
    """Never 0, and never a sum with parts missing, which would look like progress."""
    cluster = MemoryGroups(3)
    cluster.commit(20, 40, 70)
    del cluster.ends[TopicPartition("orders", 1)]
    status = status_of(cluster.observed(), replace(SPEC, thresholds=Thresholds(lag_records=1)))
    assert not {"lag", "maxLag", "lagSeconds", "oldestUnread", "recommendedReplicas"} & set(status)
    assert [row.get("lag") for row in status["partitions"]] == [80, None, 30]
    assert condition(status, "LagExceeded")["status"] == "Unknown"


def test_a_group_that_has_read_everything_has_no_lag_and_no_age() -> None:
    cluster = MemoryGroups(2)
    cluster.commit(100, 100)
    status = status_of(cluster.observed())
    assert (status["lag"], status["maxLag"], status["lagSeconds"]) == (0, 0, 0)
    assert "oldestUnread" not in status


def test_lag_counts_from_the_start_of_the_log_where_that_is_later_than_the_commit() -> None:
    """operator.md 3: end minus log start, never end minus 0."""
    cluster = MemoryGroups(1)
    cluster.commit(3)
    assert status_of(cluster.observed())["lag"] == 90


def test_commits_for_topics_that_are_gone_do_not_count() -> None:
    cluster = MemoryGroups(1)
    cluster.commit(90)
    cluster.committed[TopicPartition("gone", 0)] = 5
    assert status_of(cluster.observed())["lag"] == 10


def test_a_group_that_has_committed_nothing_has_an_unknown_lag() -> None:
    cluster = MemoryGroups(1)
    cluster.join()
    status = status_of(cluster.observed())
    assert (status["state"], status["members"]) == ("Stable", 1)
    assert "lag" not in status


def test_a_group_that_cannot_be_seen_is_unknown() -> None:
    unseen = ObservedGroup(group_id="billing", error="no coordinator")
    status = status_of(ObservedGroups(groups={"billing": unseen}))
    assert status["state"] == "Unknown"
    assert not {"members", "lag", "stuck", "partitions"} & set(status)
    assert condition(status, "Ready")["status"] == "Unknown"


def test_spark_is_recognised_and_its_lag_is_not_made_up() -> None:
    """operator.md 8.4: Structured Streaming commits nothing, so its lag is not known here."""
    spark = "spark-kafka-source-4f1c-1-driver-0"
    group = ObservedGroup(group_id=spark, state="Stable", protocol="classic")
    spec = replace(SPEC, group_id=spark)
    status = status_of(ObservedGroups(groups={spark: group}), spec)
    assert status["application"] == "spark"
    assert "lag" not in status
    assert condition(status, "Ready")["reason"] == "KeepsOffsetsElsewhere"


def test_of_many_partitions_those_that_lag_most_are_shown() -> None:
    cluster = MemoryGroups(150)
    cluster.commit(*(99 if number < 100 else 50 for number in range(150)))
    status = status_of(cluster.observed())
    assert status["partitionCount"] == 150
    shown = [row["partition"] for row in status["partitions"]]
    assert shown == [*range(50), *range(100, 150)]


@pytest.mark.parametrize(
    ("thresholds", "expected"),
    [
        (Thresholds(), None),
        (Thresholds(lag_records=1000), 1),
        (Thresholds(lag_records=60), 2),
        (Thresholds(lag_records=1), 3),
        (Thresholds(lag_seconds=1), 3),
        (Thresholds(lag_seconds=10**10), 1),
    ],
)
def test_recommended_replicas_are_between_one_and_the_partitions(
    thresholds: Thresholds, expected: int | None
) -> None:
    """operator.md 8.13: a member without a partition reads nothing."""
    cluster = MemoryGroups(3)
    cluster.commit(60, 60, 60)
    cluster.join()
    status = status_of(cluster.observed(), replace(SPEC, thresholds=thresholds))
    assert status.get("recommendedReplicas") == expected


@pytest.mark.parametrize(
    ("phase", "ready", "other"),
    [
        (Phase.DONE, "True", None),
        (Phase.PREVIEW, "True", None),
        (Phase.WAITING, "False", "Reconciling"),
        (Phase.RUNNING, "False", "Reconciling"),
        (Phase.REFUSED, "False", "Stalled"),
        (Phase.FAILED, "False", "Stalled"),
    ],
)
def test_conditions_tell_tools_whether_to_wait(phase: Phase, ready: str, other: str | None) -> None:
    operation = Operation(id="r1", request="all topics to earliest", phase=phase, message="why")
    cluster = MemoryGroups(1)
    cluster.commit(50)
    status = status_of(cluster.observed(), operations=Operations(reset=operation))
    assert condition(status, "Ready")["status"] == ready
    assert condition(status, "Ready")["observedGeneration"] == 3
    types = {one["type"] for one in status["conditions"]}
    assert types == {"Ready", other} - {None}


def test_an_age_is_told_in_steps_and_as_the_moment_it_counts_from() -> None:
    cluster = MemoryGroups(1)
    cluster.commit(50)
    first_ms = int(NOW.timestamp() * 1000) - 90_000
    observed = replace(
        cluster.observed(), record_times={(TopicPartition("orders", 0), 50): first_ms}
    )
    status = status_of(observed)
    assert (status["lagSeconds"], status["oldestUnread"]) == (60, "2025-12-31T23:58:30Z")

"""Conditions: what kubectl wait and GitOps tools read, and what must not change by itself."""

from datetime import UTC, datetime, timedelta

from barnabas_operator import conditions

NOW = datetime(2030, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)


def test_a_transition_time_changes_with_the_status_only() -> None:
    """operator.md 3, pain 9: else each pass would write and wake the next one."""
    first = conditions.merged((), conditions.ready("AsDeclared", generation=1), NOW)
    again = conditions.merged(first, conditions.ready("Other", "why", generation=2), LATER)
    assert again[0].last_transition_time == "2030-01-01T00:00:00Z"
    assert (again[0].reason, again[0].message, again[0].observed_generation) == ("Other", "why", 2)
    failed = conditions.merged(again, conditions.stalled("No"), LATER)
    assert {one.type: one.last_transition_time for one in failed} == {
        "Ready": "2030-01-01T01:00:00Z",
        "Stalled": "2030-01-01T01:00:00Z",
    }


def test_conditions_are_sorted_and_those_that_no_longer_hold_are_gone() -> None:
    old = conditions.merged((), conditions.stalled("No"), NOW)
    new = conditions.merged(old, reversed(conditions.reconciling("Moving")), LATER)
    assert [one.type for one in new] == ["Ready", "Reconciling"]
    # Ready was False before, too.
    assert new[0].last_transition_time == "2030-01-01T00:00:00Z"


def test_a_status_that_was_read_gives_the_same_status_again() -> None:
    manifests = conditions.merged_manifests(None, conditions.ready("AsDeclared"), NOW)
    status = {"conditions": manifests}
    assert conditions.merged_manifests(status, conditions.ready("AsDeclared"), LATER) == manifests


def test_a_long_message_is_cut_to_what_the_schema_takes() -> None:
    manifest = conditions.merged_manifests(None, conditions.ready("A", "x" * 100_000), NOW)[0]
    assert len(manifest["message"]) <= 32768

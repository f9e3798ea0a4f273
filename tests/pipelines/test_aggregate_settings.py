"""Settings of `aggregate`: what contradicts itself, and what a checkpoint does not allow. Pure."""

import json
from typing import Any

import pytest

from barnabas_pipelines.errors import OptionsError
from barnabas_pipelines.jobs.aggregate_settings import (
    OPTIONS,
    Aggregation,
    CheckpointMismatchError,
    check,
    check_remembered,
    facts_of,
    remembered,
    remembered_partition_count,
)
from barnabas_pipelines.jobs.settings import JobSettings, settings_of

REQUIRED = {
    "topic": "orders",
    "target": "totals",
    "bootstrap-servers": "localhost:9092",
    "checkpoint": "/checkpoint",
}


def settings(**given: Any) -> JobSettings:
    """Settings with the required ones filled in."""
    named = {name.replace("_", "-"): value for name, value in given.items()}
    return settings_of(OPTIONS, REQUIRED | named)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"target": "orders"}, "read what it writes"),
        ({"undecodable": "dead-letter"}, "needs --dead-letter-topic"),
        ({"dead_letter_topic": "bad"}, "only used with"),
        ({"undecodable": "dead-letter", "dead_letter_topic": "totals"}, "topic of their own"),
        ({"window": "1m", "slide": "2m"}, "slide"),
        ({"window": "0s"}, "longer than 0"),
        ({"measures": "count, total(x)"}, "no measure"),
        ({"value_format": "text", "measures": "sum(amount)"}, "called value"),
        ({"value_format": "number", "fields": "a INT"}, "those of JSON"),
        ({"group_by": "count"}, "rename one"),
        ({"group_by": "at", "event_time": "at", "event_time_unit": "ms"}, "declare the fields"),
    ],
)
def test_settings_that_contradict_themselves_are_refused(given: Any, message: str) -> None:
    """Before a session is started, in words of the options."""
    with pytest.raises(OptionsError, match=message):
        check(settings(**given))


def test_fields_are_inferred_unless_they_are_declared() -> None:
    """ISO times are text until they are parsed: Spark would take a number for seconds."""
    given = {"group_by": "country", "measures": "sum(amount)", "event_time": "at"}
    assert Aggregation.of(settings(**given)).fields == "country STRING, amount DOUBLE, at STRING"
    in_ms = Aggregation.of(settings(**given, event_time_unit="ms"))
    assert in_ms.fields == "country STRING, amount DOUBLE, at DOUBLE"
    declared = settings(**given, fields="amount DECIMAL(9,2)")
    assert Aggregation.of(declared).fields == "amount DECIMAL(9,2)"
    assert Aggregation.of(settings(value_format="number", measures="p50(value)")).fields is None


def test_a_checkpoint_goes_on_with_what_made_it() -> None:
    """Watermark, policies, limits and trigger may change: state does not depend on them."""
    text = remembered(settings(group_by="country"), "id", "target", 3)
    changed = settings(
        group_by="country",
        watermark="1h",
        undecodable="count-and-skip",
        max_offsets_per_trigger=5,
        trigger="10s",
    )
    check_remembered(text, changed, "id", "target")
    check_remembered(text, changed, None, None)
    assert remembered_partition_count(text) == 3


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"window": "2m"}, "window was 60000 and is 120000"),
        ({"group_by": "country"}, "group-by was not set and is country"),
        ({"measures": "count, sum(x)"}, r"measures was count and is count, sum\(x\)"),
        ({"state_partitions": 8}, "state-partitions was 4 and is 8"),
        ({"state_store": "memory"}, "state-store was rocksdb and is memory"),
        ({"output_mode": "append"}, "output-mode was update and is append"),
        ({"via": "python"}, "via was connector and is python"),
        ({"target": "others"}, "target was totals and is others"),
    ],
)
def test_what_state_depends_on_cannot_change_under_a_checkpoint(changed: Any, message: str) -> None:
    """Spark says so late and in other words, or quietly uses what the checkpoint has."""
    with pytest.raises(CheckpointMismatchError, match=message) as raised:
        check_remembered(remembered(settings(), "id", "target", 3), settings(**changed), "id", None)
    assert "set them back, or give a new --checkpoint" in str(raised.value)


def test_a_topic_that_was_made_again_is_not_gone_on_with() -> None:
    """The connector knows topics by name only, and its offsets fit by chance."""
    with pytest.raises(CheckpointMismatchError, match="deleted and made again"):
        check_remembered(remembered(settings(), "one", "target", 3), settings(), "two", None)


def test_a_target_that_was_made_again_is_not_gone_on_with() -> None:
    """Windows that do not change any more would be missing in it."""
    text = remembered(settings(), "id", "one", 3)
    with pytest.raises(CheckpointMismatchError, match=r"target .* was deleted and made again"):
        check_remembered(text, settings(), "id", "two")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 1}', "null"])
def test_an_unreadable_file_in_the_checkpoint_is_told(text: str) -> None:
    """Going on without it could mix two kinds of state."""
    with pytest.raises(CheckpointMismatchError, match=r"aggregate\.json cannot be read"):
        check_remembered(text, settings(), "id", None)


def test_a_checkpoint_of_a_later_release_is_refused() -> None:
    """What it remembers may mean something else."""
    document = json.loads(remembered(settings(), "id", "target", 3)) | {"version": 2}
    with pytest.raises(CheckpointMismatchError, match="another release"):
        check_remembered(json.dumps(document), settings(), "id", None)


def test_late_and_undecodable_are_found_in_the_progress_of_spark() -> None:
    """Where Spark leaves a number out, nothing was counted."""
    assert facts_of({}) == (0, 0)
    progress = {
        "stateOperators": [{"numRowsDroppedByWatermark": 2}, {"numRowsTotal": 1}],
        "observedMetrics": {"decoding": {"undecodable": 3}},
    }
    assert facts_of(progress) == (2, 3)

"""What `quality` can be told, and how it tells what it counted. No Spark."""

import json
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from barnabas_pipelines.errors import OptionsError
from barnabas_pipelines.jobs.quality import JOB, split_path
from barnabas_pipelines.jobs.quality_settings import all_rules
from barnabas_pipelines.jobs.quality_tally import Tally
from barnabas_pipelines.jobs.settings import JobSettings, settings_of
from barnabas_pipelines.transforms.rule_parsing import parse_rules

GIVEN = {"bootstrap-servers": "b:1", "topic": "t", "fields": "a INT", "checkpoint": "/c"}


def checked(**changes: Any) -> JobSettings:
    given = {**GIVEN, **{name.replace("_", "-"): value for name, value in changes.items()}}
    settings = settings_of(JOB.options, {key: one for key, one in given.items() if one is not None})
    JOB.check(settings)
    return settings


def test_required_fields_are_rules_like_others() -> None:
    """So they are counted, and named in the headers of a letter."""
    rules = all_rules(checked(required=["a", "b"], rules=[{"field": "a", "set": [1]}]))
    assert [rule.name for rule in rules] == ["a-required", "b-required", "a-set"]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"fields": None}, "--fields is missing"),
        ({"value_format": "text"}, "only for --value-format json"),
        ({"checkpoint": None}, "--checkpoint is missing"),
        ({"dead_letter_topic": "t"}, "the job would never end"),
        ({"good_topic": "t"}, "the job would never end"),
        ({"good_topic": "x", "dead_letter_topic": "x"}, "are the same"),
        ({"ending_offsets": "latest"}, "only for --mode batch"),
        ({"mode": "batch"}, "--checkpoint is only for --mode stream"),
        ({"mode": "batch", "checkpoint": None, "group": "g"}, "--group is only for"),
        ({"rules": [{"field": "a"}]}, "--rules .*exactly one of"),
        ({"rules": "[a"}, "must be YAML"),
        ({"fail_above": 1.5}, "from 0 to 1"),
        ({"required": ["a"], "rules": [{"name": "a-required", "expression": "a"}]}, "already"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes: dict[str, Any], told: str) -> None:
    """Before Spark is started, and so also by --dry-run."""
    with pytest.raises(OptionsError, match=told):
        checked(**changes)


def tally() -> Tally:
    rules = parse_rules([{"field": "a", "set": ["x"]}, {"field": "a", "not-null": True}])
    made = Tally(topic='quo"te', rules=rules)
    made.add(100, 10, 3, (5, 4))
    made.add(50, 0, 0, (0, 0))
    return made


def test_counts_are_added_up_over_batches() -> None:
    made = tally()
    assert (made.batch_count, made.record_count, made.good_count) == (2, 150, 140)
    assert made.bad_share == pytest.approx(10 / 150)
    document = json.loads(made.as_json())
    assert document["undecodable"] == 3
    assert [(one["name"], one["broken"]) for one in document["rules"]] == [
        ("a-set", 5),
        ("a-not-null", 4),
    ]


def test_no_records_are_no_bad_share() -> None:
    """An empty topic must not fail a job by dividing by zero."""
    assert Tally(topic="t", rules=()).bad_share == 0


def test_metrics_are_in_prometheus_text_format() -> None:
    """A quote in a name would make the whole file unreadable."""
    lines = tally().as_metrics().splitlines()
    assert 'barnabas_quality_records_total{topic="quo\\"te",outcome="bad"} 10' in lines
    assert 'barnabas_quality_rule_broken_total{topic="quo\\"te",rule="a-set"} 5' in lines
    for name in {line.split("{")[0] for line in lines if not line.startswith("#")}:
        assert f"# TYPE {name} counter" in lines
        assert any(line.startswith(f"# HELP {name} ") for line in lines)


def test_the_table_has_every_rule_and_what_could_not_be_decoded() -> None:
    console = Console(file=StringIO(), width=120)
    console.print(tally().as_table())
    assert isinstance(console.file, StringIO)
    shown = console.file.getvalue()
    assert "150 records, 140 good, 10 bad" in shown
    for words in ("decodable", "a-set", "a is one of x", "3.33%"):
        assert words in shown


def test_brackets_in_rules_and_topics_are_no_markup() -> None:
    """A rule with `[/` in its text ended the job with an error when all was judged and written."""
    rules = parse_rules([{"field": "a", "regex": "[a-z]+[/x]"}])
    console = Console(file=StringIO(), width=120)
    console.print(Tally(topic="[/red]", rules=rules).as_table())
    assert isinstance(console.file, StringIO)
    shown = console.file.getvalue()
    for words in ("[a-z]+[/x]", "[/red]: 0 records"):
        assert words in shown


def test_a_file_is_told_from_its_folder() -> None:
    assert split_path("/a/b/c.json") == ("/a/b", "c.json")
    assert split_path("s3a://bucket/c.json") == ("s3a://bucket", "c.json")
    assert split_path("c.json") == (".", "c.json")
    assert split_path("/c.json") == ("/", "c.json")

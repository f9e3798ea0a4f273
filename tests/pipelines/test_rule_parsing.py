"""Rules as people write them: what they mean in SQL, and what is refused before Spark starts."""

from typing import Any

import pytest

from barnabas_pipelines.errors import OptionsError
from barnabas_pipelines.transforms.rule_parsing import RuleKind, literal, parse_rules, quoted


def condition(rule: dict[str, Any]) -> str | None:
    (parsed,) = parse_rules([rule])
    return parsed.condition


def test_a_field_that_is_null_breaks_only_not_null() -> None:
    """Whether it may be missing is one question, what it looks like another."""
    assert condition({"field": "a", "not-null": True}) == "`a` IS NOT NULL"
    others: list[dict[str, Any]] = [{"range": {"min": 0}}, {"regex": "x"}, {"set": [1]}]
    for other in others:
        text = condition({"field": "a", **other})
        assert text is not None
        assert text.startswith("`a` IS NULL OR (")


def test_a_range_may_have_limits_of_either_kind() -> None:
    """Amounts are above 0, shares at most 1: both limits occur."""
    assert (
        condition({"field": "a.b", "range": {"above": 0, "max": 1.5}})
        == "`a`.`b` IS NULL OR (`a`.`b` <= 1.5 AND `a`.`b` > 0)"
    )


def test_a_pattern_has_to_match_the_whole_text() -> None:
    """One that is found anywhere lets almost everything pass; `$` a newline at the end."""
    text = condition({"field": "a", "regex": r"\d+|x'y"})
    assert text == r"`a` IS NULL OR (CAST(`a` AS STRING) RLIKE '\\A(?:\\d+|x\'y)\\z')"


def test_values_become_sql_that_cannot_be_left() -> None:
    r"""A text with a quote or a backslash stays a text."""
    assert literal("it's") == r"'it\'s'"
    assert literal("\\") == r"'\\'"
    assert literal(True) == "TRUE"
    assert literal(-3) == "-3"
    assert quoted("select.from") == "`select`.`from`"


def test_rules_without_a_name_are_called_by_field_and_kind() -> None:
    rules = parse_rules(
        [
            {"field": "a", "set": [1, 2]},
            {"field": "a", "range": {"min": 1}},
            {"unique_in_batch": ["a", "b"]},
            {"name": "mine", "expression": "a >\n  b"},
        ]
    )
    assert [rule.name for rule in rules] == ["a-set", "a-range", "a-b-unique", "mine"]
    assert rules[2].kind is RuleKind.UNIQUE
    assert rules[2].condition is None
    assert rules[3].condition == "a > b"


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({"field": "a"}, "must be a list"),
        ("a > 0", "must be a list"),
        (["a > 0"], "rule 1: it must be a mapping"),
        ([{"field": "a"}], "exactly one of expression, not-null, range"),
        ([{"field": "a", "set": [1], "regex": "x"}], "exactly one of"),
        ([{"name": "n", "expression": "a", "min": 1}], "rule 1 \\(n\\): min does not belong"),
        ([{"expression": "a > 0"}], "an expression needs a name"),
        ([{"name": "n", "expression": ""}], "a condition in SQL"),
        ([{"name": "n", "field": "a", "expression": "a"}], "names its fields by itself"),
        ([{"field": "a", "not-null": False}], "can only be true"),
        ([{"not-null": True}], "needs a field"),
        ([{"field": "a b", "not-null": True}], "'a b' is no field"),
        ([{"field": "a", "range": {"least": 1}}], "min, max \\(inclusive\\)"),
        ([{"field": "a", "range": {}}], "min, max"),
        ([{"field": "a", "range": {"min": [1]}}], "must be text, a number"),
        ([{"field": "a", "range": {"min": float("nan")}}], "no number to compare with"),
        ([{"field": "a", "set": []}], "set must be a list"),
        ([{"field": "a", "regex": 3}], "regex must be a regular expression"),
        ([{"unique-in-batch": []}], "a field or a list of fields"),
        ([{"name": "no name", "field": "a", "not-null": True}], "'no name' is no name"),
        ([{"field": "a", "set": [1]}, {"field": "a", "set": [2]}], "two rules are called a-set"),
        ([{"field": "a", "not-null": True}] * 201, "the most is 200"),
    ],
)
def test_a_mistake_is_named_with_its_rule(document: Any, told: str) -> None:
    """A rule that is silently not checked is worse than none."""
    with pytest.raises(OptionsError, match=told):
        parse_rules(document)

"""What a row does with a given value, and what errors say."""

from collections.abc import Callable
from typing import Any

import pytest

from barnabas_protocol.settings import kinds
from barnabas_protocol.settings.kinds import Kind, any_of, as_text
from barnabas_protocol.settings.reference import default_cell, name_cell, table
from barnabas_protocol.settings.setting import (
    GivenError,
    Rule,
    Setting,
    SettingError,
    first_missing,
    named,
)
from barnabas_protocol.settings.suggestions import nearest, unknown_name

LIMIT = Setting("limit.bytes", kinds.INTEGER, "10", "How much.", 1, 100)
MODE = Setting("mode", kinds.TEXT, "fast", "How.", choices=("fast", "Careful", "slow"))


@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [
        (kinds.INTEGER, " 17 ", 17),
        (kinds.INTEGER, -3, -3),
        (kinds.BOOLEAN, "TRUE", True),
        (kinds.NUMBER, "1.5", 1.5),
        (kinds.LIST, "a, b,,", ("a", "b")),
        (kinds.LIST, ["a", 1], ("a", 1)),
        (kinds.NAMES, "a,b,a", ("a", "b")),
        (kinds.PAIRS, "a=b=c", {"a": "b=c"}),
        (kinds.PAIRS, {"a": True}, {"a": "true"}),
        (kinds.DURATION, "15m", 900_000),
        (kinds.DURATION, "500", 500),
        (kinds.SIZE, "1 KiB", 1024),
        (kinds.TEXT, " p ", " p "),
        (kinds.LONG, str(kinds.LONG_MAX), kinds.LONG_MAX),
        (any_of(kinds.INTEGER, kinds.TEXT), "all", "all"),
        (any_of(kinds.INTEGER, kinds.TEXT), "1", 1),
    ],
)
def test_values_are_read_by_their_kind(kind: Kind, given: Any, value: Any) -> None:
    """Text as in a file, or the value itself."""
    assert Setting("name", kind, None, "Why.").accept(given) == value


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (kinds.INTEGER, "1.0"),
        (kinds.INTEGER, True),
        (kinds.INTEGER, None),
        (kinds.INTEGER, "\u0661"),
        (kinds.INT, 2**31),
        (kinds.SHORT, "32768"),
        (kinds.BOOLEAN, "yes"),
        (kinds.NUMBER, "many"),
        (kinds.LIST, 5),
        (kinds.NAMES, " , "),
        (kinds.PAIRS, "a"),
        (kinds.DURATION, "soon"),
        (kinds.SIZE, "big"),
        (kinds.TEXT, 5),
    ],
)
def test_what_is_of_another_kind_is_refused_with_what_is_wanted(kind: Kind, given: Any) -> None:
    """An error that does not say what is possible is half an error."""
    with pytest.raises(SettingError) as raised:
        Setting("name", kind, None, "Why.").accept(given)
    assert raised.value.rule is Rule.KIND
    assert raised.value.reason == f"it must be {kind.words}"


def _even(value: int) -> str | None:
    return "it must be even" if value % 2 else None


@pytest.mark.parametrize(
    ("row", "given", "rule", "reason"),
    [
        (LIMIT, 0, Rule.MINIMUM, "the least is 1"),
        (LIMIT, "101", Rule.MAXIMUM, "the most is 100"),
        (MODE, "careless", Rule.CHOICES, "it must be one of fast, Careful, slow"),
        (MODE, "fats", Rule.CHOICES, "did you mean fast?"),
        (Setting("n", kinds.INTEGER, 2, "Why.", check=_even), 3, Rule.CHECK, "it must be even"),
    ],
)
def test_what_breaks_a_rule_is_refused_with_the_rule(
    row: Setting, given: Any, rule: Rule, reason: str
) -> None:
    """Whoever words it otherwise, as Kafka's tools expect it, knows which rule it was."""
    with pytest.raises(SettingError) as raised:
        row.accept(given)
    assert raised.value.rule is rule
    assert reason in raised.value.reason


def test_choices_are_read_in_any_case_unless_a_row_is_strict() -> None:
    """The value is the choice as it is declared."""
    assert MODE.accept(" careful") == "Careful"
    strict = Setting("m", kinds.LIST, "", "Why.", choices=("a", "b"), folds_case=False)
    assert strict.accept("a,b") == ("a", "b")
    with pytest.raises(SettingError) as raised:
        strict.accept("a,B")
    assert raised.value.value == "B"


def test_nothing_is_a_value_only_where_a_row_says_so() -> None:
    """None stands for "not set"."""
    assert Setting("n", kinds.INTEGER, None, "Why.", is_nullable=True).accept(None) is None
    with pytest.raises(SettingError):
        LIMIT.accept(None)


def test_secrets_are_not_shown() -> None:
    """Errors end up in logs."""
    assert Setting("p", kinds.TEXT, None, "Why.", is_secret=True).shown("s3cret") == "[hidden]"
    assert LIMIT.shown("x" * 200) == repr("x" * 77 + "...")


def test_given_names_are_those_of_rows_once_each() -> None:
    """A typing error that is ignored goes unnoticed for years."""
    rows, spell = (LIMIT, MODE), lambda name: name.replace("_", ".")
    assert named(rows, {"limit_bytes": 1}, spell=spell) == {"limit.bytes": 1}
    with pytest.raises(GivenError, match=r"unknown setting limt_bytes; did you mean limit\.bytes"):
        named(rows, {"limt_bytes": 1}, spell=spell)
    with pytest.raises(GivenError, match="unknown setting zzz; see there"):
        named(rows, {"zzz": 1}, otherwise="see there")
    with pytest.raises(GivenError, match="given twice"):
        named(rows, {"limit_bytes": 1, "limit.bytes": 2}, spell=spell)


def test_the_first_row_that_is_missing_is_found() -> None:
    """Rows with a default need not be given."""
    needed = Setting("path", kinds.TEXT, None, "Where.", is_required=True)
    assert first_missing((LIMIT, needed), {}) is needed
    assert first_missing((LIMIT, needed), {"path": "a"}) is None


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (LIMIT, "1 to 100"),
        (MODE, "fast, Careful, slow"),
        (Setting("n", kinds.LONG, 1, "Why.", 0, kinds.LONG_MAX), "at least 0"),
        (Setting("n", kinds.NUMBER, 1, "Why.", 0.5), "at least 0.5"),
        (Setting("n", kinds.NUMBER, 1, "Why.", None, 3), "at most 3"),
        (Setting("n", kinds.TEXT, "", "Why."), ""),
    ],
)
def test_ranges_are_told_to_people(row: Setting, text: str) -> None:
    """A bound that is the kind's own tells nothing."""
    assert row.range_text == text


def test_a_reference_is_a_table_with_a_row_each() -> None:
    """Bars within cells would end them."""
    cells: dict[str, Callable[[Setting], str]] = {
        "Name": name_cell,
        "Default": default_cell,
        "Why": lambda row: f"{row.why}|",
    }
    assert list(table([LIMIT], cells)) == [
        "| Name | Default | Why |",
        "|---|---|---|",
        "| `limit.bytes` | `10` | How much.\\| |",
    ]


@pytest.mark.parametrize(
    ("value", "text"), [("a", "a"), (True, "true"), (5, "5"), (2.0, "2"), (2.5, "2.5")]
)
def test_values_of_yaml_have_the_text_that_would_be_written(value: Any, text: str) -> None:
    """Quotes may be left out in manifests."""
    assert as_text(value) == text
    for wrong in ([1], {"a": 1}, None):
        with pytest.raises(ValueError, match="one value"):
            as_text(wrong)


def test_the_nearest_name_is_found_whatever_the_case() -> None:
    """One that is not alike is no suggestion."""
    assert nearest("LINGER_SM", ["linger_ms", "batch_size"]) == "linger_ms"
    assert nearest("zzz", ["linger_ms"]) is None
    assert unknown_name("setting", "zzz", ["linger_ms"]) == "unknown setting zzz"

"""The filter of records: grammar and evaluation (CON-115)."""

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas_console.records.content import Format
from barnabas_console.records.filters import (
    CHARACTERS_MAX,
    TERMS_MAX,
    FilterError,
    Operator,
    parse_filter,
)
from barnabas_console.records.json_text import VALUES_MAX
from tests.console.records.record_views import NOW_MS, view

HOUR_MS = 3_600_000
ORDER = view(
    b'{"amount": 120, "id": 9007199254740993, "name": "Zo\\u00eb", "paid": true, "note": null,'
    b' "items": [{"price": 5.0}, {"price": 250}], "a.b": "dotted", "day": "2026-03-01"}',
    b"alice",
    headers=(("trace", b"x"), ("trace", b"y"), ("empty", None), ("b.c", b"d e")),
    partition=3,
    offset=88_213,
    timestamp_ms=NOW_MS - HOUR_MS,
)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "alice",
        "amount",
        "key=alice",
        "key!=bob",
        "key~lic",
        "key!~bob",
        "value~amount",
        '"Zo\\\\u00eb"',
        "header.trace=x",
        "header.trace=y",
        'header.b.c="d e"',
        'header."b.c"~d',
        "header.empty=null",
        "header.none=null",
        "json.amount>100",
        "json.amount=120.0",
        "json.amount>=120",
        'json.amount="120"',
        "json.name=Zoë",
        "json.paid=true",
        "json.note=null",
        "json.nothing=null",
        "json.nothing!=5",
        "json.items.0.price=5",
        "json.items.*.price>100",
        'json."a.b"=dotted',
        "json.items~price",
        "json.day>2026-02-28",
        "json.day<2026-03-02",
        "partition=3",
        "partition<4 partition>2",
        "partition!=4",
        "offset>=88213 offset<=88213",
        "time>2h",
        "time<now",
        "time<30m",
        "key=alice value~amount header.trace=x json.items.0.price>1 partition=3 time>2h",
    ],
)
def test_record_passes(text: str) -> None:
    assert parse_filter(text, NOW_MS).matches(ORDER)


@pytest.mark.parametrize(
    "text",
    [
        "bob",
        "key=Alice",
        "key!=alice",
        "key!~lic",
        "key=null",
        'key="null"',
        "header.trace=z",
        "header.trace!=x",
        "header.empty=x",
        "header.trace=null",
        "json.amount>120",
        "json.amount<abc",
        'json.amount="120.0"',
        "json.name>5",
        "json.note=5",
        "json.items.2.price>0",
        "json.items.*.price>1000",
        "json.a.b=dotted",
        "json.amount=null",
        "partition=2",
        "time>30m",
        "key=alice partition=2",
    ],
)
def test_record_does_not_pass(text: str) -> None:
    assert not parse_filter(text, NOW_MS).matches(ORDER)


def test_integers_of_64_bits_are_compared_to_the_last_digit() -> None:
    """A double has no 9007199254740993, which four programs of this kind found equal to ...992."""
    assert parse_filter("json.id=9007199254740993", 0).matches(ORDER)
    assert not parse_filter("json.id=9007199254740992", 0).matches(ORDER)
    assert parse_filter("json.id>9007199254740992", 0).matches(ORDER)


def test_null_is_a_tombstone_and_not_the_text_null() -> None:
    assert parse_filter("value=null", 0).matches(view(None))
    assert not parse_filter("value=null", 0).matches(view(b"null"))
    assert parse_filter('value="null"', 0).matches(view(b"null"))
    assert parse_filter("value!=null", 0).matches(view(b""))


def test_record_without_a_time_is_neither_old_nor_young() -> None:
    record = view(timestamp_ms=-1)
    assert not parse_filter("time>2h", NOW_MS).matches(record)
    assert not parse_filter("time<2h", NOW_MS).matches(record)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("kay=alice", "did you mean key"),
        ("nonsense=1", "fields are key"),
        ("a<b", "wants quotes"),
        ("key=", "nothing behind key="),
        ('key="a', "not closed"),
        ('key="a"b', "comes a space"),
        ("partition=x", "whole number"),
        ("partition~3", "compare it"),
        ("offset=-1", "whole number"),
        ("time>never", "no point in time"),
        ("json.=5", "no field"),
        ("json=5", "no field"),
        ("header=5", "no field"),
        ('""', "nothing to seek"),
        ("x " * (TERMS_MAX + 1), "terms"),
        ("x" * (CHARACTERS_MAX + 1), "characters"),
        (f"json.{'a.' * 40}a=1", "parts"),
    ],
)
def test_what_is_no_filter_is_refused_in_words(text: str, part: str) -> None:
    with pytest.raises(FilterError, match=part):
        parse_filter(text, NOW_MS)


_WORDS = st.text(min_size=1, max_size=8)
_TEXTS = st.lists(
    st.one_of(
        _WORDS,
        st.sampled_from(["key", "value", "json.a", "header.b", "partition", "time", "json.*.0"]),
        st.sampled_from(['"', "\\", " ", "=", "!=", "~", "!~", "<", ">=", ".", "null", "5", "2h"]),
    ),
    max_size=12,
).map("".join)


@given(_TEXTS)
def test_text_of_a_filter_is_read_as_an_equal_filter(text: str) -> None:
    """What somebody typed stands in the address of the page, and comes back from there."""
    try:
        parsed = parse_filter(text, NOW_MS)
    except FilterError:
        return
    assert parse_filter(str(parsed), NOW_MS) == parsed


_LEAVES = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=5)
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=6,
)


@given(
    _VALUES,
    st.sampled_from(["json.a", "json.a.b", "json.0", "json.*", "value", "key", "header.h"]),
    st.sampled_from([("=", "!="), ("~", "!~")]),
    st.sampled_from(["5", "null", "true", "x", '""', '"5"', "-1.0"]),
)
def test_negated_operator_is_the_opposite(
    value: object, field: str, operators: tuple[str, str], operand: str
) -> None:
    record = view(json.dumps(value).encode(), b"5", headers=(("h", b"x"),))
    holds, holds_not = (
        parse_filter(f"{field}{operator}{operand}", 0).matches(record) for operator in operators
    )
    assert holds is not holds_not


@given(
    st.integers(-(2**70), 2**70),
    st.integers(-(2**70), 2**70),
    st.sampled_from(["=", "<", "<=", ">", ">="]),
)
def test_numbers_in_json_compare_like_numbers(left: int, right: int, operator: str) -> None:
    """The dumb twin: Python's own integers."""
    found = parse_filter(f"json.n{operator}{right}", 0).matches(view(f'{{"n":{left}}}'.encode()))
    expected = {
        "=": left == right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
    }
    assert found is expected[operator]


@given(st.binary(max_size=40), st.text("abcdefghijklmnopqrstuvwxyz -_.@0123456789é", min_size=1))
def test_record_that_passes_has_the_needles_in_its_bytes(value: bytes, word: str) -> None:
    """A batch without them is not decoded, so that they may never be wrong."""
    for data in (value, value + word.encode() + value, word.encode(), json.dumps([word]).encode()):
        for field in ("value~", "value=", ""):
            parsed = parse_filter(f'{field}"{word}"' if field else f'"{word}"', 0)
            if parsed.matches(view(data)):
                assert all(needle in data for needle in parsed.needles())


def test_needles_are_of_text_that_must_be_there() -> None:
    parsed = parse_filter("refund value~late key=alice value!~x json.a=b value~12 value~ab", 0)
    assert parsed.needles() == (b"refund", b"late", b"alice")


def test_partitions_that_cannot_match_are_not_read() -> None:
    parsed = parse_filter("partition!=1 partition<4 key=a", 0)
    assert parsed.partitions(range(6)) == [0, 2, 3]


def test_operators_are_those_of_the_page() -> None:
    assert [one.value for one in Operator] == ["=", "!=", "~", "!~", "<", "<=", ">", ">="]


@pytest.mark.parametrize("number", ["1e999999", "-1e-999999", "9" * 400, "0.1"])
def test_absurd_numbers_cost_no_time(number: str) -> None:
    record = view(f'{{"n":{number}}}'.encode())
    assert parse_filter(f"json.n={number}", 0).matches(record)
    assert parse_filter("json.n>1", 0).matches(record) is (Decimal(number) > 1)


def test_a_value_of_too_many_parts_is_told_as_not_looked_into() -> None:
    """CON-172: it is shown as text, and a filter on JSON counts it as too large."""
    many = view(f"[{','.join(['0'] * (VALUES_MAX + 1))}]".encode())
    few = view(b"[0,0]")
    assert (many.is_too_large_for_json, few.is_too_large_for_json) == (True, False)
    assert list(many.value_json) == []
    assert many.value.format is Format.TEXT

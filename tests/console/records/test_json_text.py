"""JSON with its numbers as text (CON-114)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas_console.records.json_text import (
    DEPTH_MAX,
    VALUES_MAX,
    NumberText,
    has_many_values,
    parse_json,
    write_json,
)

_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@pytest.mark.parametrize(
    "text",
    ['{"id":9007199254740993}', "[1.10,1e400,-0,18446744073709551615]", '"\\ud800"', "[true,null]"],
)
def test_numbers_keep_each_digit(text: str) -> None:
    assert write_json(parse_json(text)) == text


@given(_VALUES)
def test_what_is_written_is_the_same_value(value: object) -> None:
    written = write_json(value)
    assert json.loads(written) == value
    assert json.loads(write_json(parse_json(written))) == value


def test_number_is_a_text_of_its_own_kind() -> None:
    assert parse_json("12") == NumberText("12")
    assert isinstance(parse_json('"12"'), str) and not isinstance(parse_json('"12"'), NumberText)


@pytest.mark.parametrize(("opening", "closing"), ["[]", ('{"a":', "}"), ('[{"a":', "}]")])
@pytest.mark.parametrize("depth", [DEPTH_MAX + 1, VALUES_MAX // 2, 100_000])
def test_bomb_of_depth_is_refused(opening: str, closing: str, depth: int) -> None:
    with pytest.raises(ValueError, match=r"deep|values"):
        parse_json(opening * depth + "0" + closing * depth)


@pytest.mark.parametrize("value", ["[]", "0", '""', '{"":0}', '"a,b"', '"[{"'])
def test_bomb_of_small_values_is_refused(value: str) -> None:
    """CON-172: 256 KiB of them held the loop for 70 ms, and longer when they were written."""
    text = f"[{','.join([value] * (VALUES_MAX + 1))}]"
    assert has_many_values(text)
    with pytest.raises(ValueError, match="values"):
        parse_json(text)
    with pytest.raises(ValueError, match="values"):
        write_json(json.loads(text))


@pytest.mark.parametrize("text", ["a,0,1\n" * 100_000, '{"a":[],"b":"\\""}' * 50_000, "[{,\\"])
def test_what_stands_in_a_text_is_no_value(text: str) -> None:
    """A file of offsets, or JSON to be written, is one text of a request."""
    written = json.dumps({"kind": "reset-offsets", "value": text})
    assert not has_many_values(written)
    assert parse_json(written) == json.loads(written)


@given(_VALUES)
def test_few_values_are_never_many(value: object) -> None:
    assert not has_many_values(json.dumps([value] * 10))


def test_brackets_within_texts_are_not_depth() -> None:
    text = json.dumps(["[" * 1000, '"{' * 1000, "\\"])
    assert parse_json(text) == json.loads(text)


def test_deepest_value_is_read_and_written() -> None:
    text = "[" * DEPTH_MAX + "]" * DEPTH_MAX
    assert write_json(parse_json(text)) == text
    with pytest.raises(ValueError, match="deep"):
        write_json([parse_json(text)])


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", "{", "", "[1,]", "01"])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_json(text)


def test_long_names_do_not_make_an_endless_text() -> None:
    """256 KiB of small records with long names would become gigabytes."""
    row = {"x" * 100_000: 0}
    with pytest.raises(ValueError, match="64 MiB"):
        write_json([row] * 1_000)


def test_what_decoders_give_has_a_form() -> None:
    assert write_json({"b": b"\xff", 1: float("nan"), b"k": (float("inf"),)}) == (
        '{"b":"ff","1":"nan","6b":["inf"]}'
    )

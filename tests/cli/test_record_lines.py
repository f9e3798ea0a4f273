"""How lines become records."""

import pytest

from barnabas_cli.record_lines import LineError, LineFormat


def test_a_line_is_a_value_and_keeps_its_bytes() -> None:
    assert LineFormat().parse(b"a\xffb:c") == (None, b"a\xffb:c", [])


def test_key_headers_and_null_markers() -> None:
    line_format = LineFormat(
        key_separator=b":", has_headers=True, null_marker=b"NULL", headers=(("all", b"1"),)
    )
    assert line_format.parse(b"a=1,b=NULL\tk:v:w") == (
        b"k",
        b"v:w",
        [("all", b"1"), ("a", b"1"), ("b", None)],
    )
    assert line_format.parse(b"\tNULL:NULL") == (None, None, [("all", b"1")])


def test_one_key_for_all() -> None:
    assert LineFormat(key=b"k").parse(b"v") == (b"k", b"v", [])


@pytest.mark.parametrize(
    ("line_format", "line", "words"),
    [
        (LineFormat(key_separator=b"::"), b"a:b", "no key separator"),
        (LineFormat(has_headers=True), b"a=1", "no tab after the headers"),
        (LineFormat(has_headers=True), b"a\tv", "a header is name=value, not 'a'"),
        (LineFormat(has_headers=True), b"\xff=1\tv", "no UTF-8"),
    ],
)
def test_lines_that_cannot_be_records(line_format: LineFormat, line: bytes, words: str) -> None:
    with pytest.raises(LineError, match=words):
        line_format.parse(line)

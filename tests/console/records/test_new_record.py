"""The form of a new record as bytes (CON-116)."""

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas_console.records.new_record import SIZE_BYTES_MAX, RecordFormError, read_form


@given(st.binary(max_size=50))
def test_bytes_are_written_as_they_are(data: bytes) -> None:
    form = {
        "key": data.hex(),
        "key_format": "hex",
        "value": base64.b64encode(data).decode(),
        "value_format": "base64",
    }
    record = read_form(form)
    assert record.key == record.value == data


def test_null_is_not_empty() -> None:
    record = read_form({"key": "", "value": None})
    assert (record.key, record.value) == (b"", None)
    assert read_form({"value": "x", "value_format": "null"}).value is None


@pytest.mark.parametrize(
    ("form", "part"),
    [
        ({"value": "x" * (SIZE_BYTES_MAX + 1)}, "at most"),
        ({"value": "[" * 1000, "value_format": "json"}, "value: "),
        ({"value": "=", "value_format": "base64"}, "base64"),
        ({"key": "\ud800"}, "key: "),
        ({"headers": [["\ud800", "x"]]}, "surrogates"),
        ({"headers": [["a", "x"]] * 101}, "at most 100"),
        ({"timestamp_ms": True}, "timestamp_ms"),
        ({"timestamp_ms": 1 << 63}, "timestamp_ms"),
    ],
)
def test_what_cannot_be_written_is_refused_in_words(form: dict[str, Any], part: str) -> None:
    with pytest.raises(RecordFormError, match=part):
        read_form(form)

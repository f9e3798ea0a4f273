"""Lines of an export: a spreadsheet runs nothing of them (CON-124, CON-172)."""

import csv

import pytest

from barnabas_console.records.export_lines import line_writer
from tests.console.records.record_views import view


@pytest.mark.parametrize(
    "value", ["=1+1", "+a", "-a", "@a", "\t=1", "\r=1", "\n=1", "\uff1d1+1", "\uff0ba", "\uff20a"]
)
def test_what_a_spreadsheet_would_run_has_an_apostrophe_before_it(value: str) -> None:
    _, line = line_writer("csv")
    text = line(view(value.encode(), value.encode())).decode()
    ((_, _, _, key, shown, _),) = csv.reader([text])
    assert (key, shown) == (f"'{value}", f"'{value}")


@pytest.mark.parametrize("value", ["-1", "-1.5e3", "a=1", "", " x"])
def test_numbers_and_other_texts_stay_what_they_are(value: str) -> None:
    _, line = line_writer("csv")
    ((*_, shown, _),) = csv.reader([line(view(value.encode())).decode()])
    assert shown == value

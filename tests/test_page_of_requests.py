"""docs/formats/between-brokers.md lists what brokers send to one another."""

import re
from pathlib import Path

from barnabas_broker.handlers.table import FORWARDED
from barnabas_protocol.api import INTERNAL, ApiKey

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "formats" / "between-brokers.md").read_text(encoding="utf-8")


def constant_of(name: str) -> str:
    """`CreateTopics` as the key is called in code."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper()


def test_the_page_names_exactly_the_requests_that_are_forwarded() -> None:
    """Who adds one to the table finds the page that lists them."""
    sentence = re.search(r"sends on what only the controller does:(.*?)\.", PAGE, re.DOTALL)
    assert sentence is not None
    named = re.findall(r"\b[A-Z]\w+", sentence[1])
    assert {constant_of(name) for name in named} == {key.name for key in FORWARDED}


def test_the_page_lists_every_request_of_brokers_alone() -> None:
    told = {
        int(number)
        for cell in re.findall(r"^\| ([\d, ]+) \|", PAGE, re.MULTILINE)
        for number in cell.split(", ")
    }
    assert set(INTERNAL) <= {ApiKey(number) for number in told if number in set(ApiKey)}

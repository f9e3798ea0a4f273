"""Masked fields stay masked, by whatever way (CON-144)."""

from pathlib import Path

import pytest

from barnabas_console.records.decoding import DecodingRules, RulesError
from barnabas_console.records.filters import parse_filter
from barnabas_console.records.masking import MASK, MaskRules, TopicMask, read_mask_rules
from tests.console.records.record_views import view

SECRET = "4111-1111"
CARD = (
    b'{"id":9007199254740993,"card":{"number":"4111-1111","cvc":123},'
    b'"items":[{"iban":"DE4111-1111"},{"iban":null}]}'
)
RULES = """
- topics: "pay*"
  mask: [json.card.number, json.items.*.iban]
- topics: payments
  mask: [key, header.Authorization]
"""


@pytest.fixture
def mask(tmp_path: Path) -> TopicMask:
    path = tmp_path / "masks.yaml"
    path.write_text(RULES)
    return read_mask_rules(path).for_topic("payments")


def test_all_rules_of_a_topic_count(mask: TopicMask) -> None:
    record = view(
        CARD, b"4111-1111", headers=(("authorization", b"4111-1111"), ("b", b"x")), mask=mask
    )
    assert record.value.text == (
        f'{{"id":9007199254740993,"card":{{"number":"{MASK}","cvc":123}},'
        f'"items":[{{"iban":"{MASK}"}},{{"iban":"{MASK}"}}]}}'
    )
    assert record.key.text == MASK
    assert record.headers == [("authorization", MASK), ("b", "x")]
    assert SECRET not in str(record.row(characters_max=None))
    assert record.row()["is_masked"]


@pytest.mark.parametrize(
    "text",
    ["key=4111-1111", "4111", "value~4111", "json.card.number=4111-1111", "header.authorization~4"],
)
def test_no_filter_tells_what_is_behind_a_mask(mask: TopicMask, text: str) -> None:
    headers = (("authorization", b"4111-1111"),)
    assert not parse_filter(text, 0).matches(view(CARD, b"4111-1111", headers=headers, mask=mask))
    assert parse_filter(f"json.card.number={MASK}", 0).matches(view(CARD, mask=mask))


@pytest.mark.parametrize("how", ["auto", "text", "hex", "json", "number", "msgpack"])
@pytest.mark.parametrize(
    "data",
    [
        CARD,
        CARD[:-1],
        b"\xff" + CARD,
        b'{"card":{"number":"no"},"card":{"number":"4111-1111"}}',
        b'"4111-1111"',
        b"4111-1111",
        b'{"card":"{\\"number\\":\\"4111-1111\\"}"}',
        b'{"card":[{"number":"4111-1111"},["4111-1111"]]}',
        b'[{"card":{"number":"4111-1111"}}]',
        b"[" * 300 + CARD,
        CARD[:-1] + b',"x":"' + b"x" * 300_000 + b'"}',
    ],
)
def test_value_that_cannot_be_taken_apart_is_masked_as_a_whole(
    mask: TopicMask, data: bytes, how: str
) -> None:
    decoding = DecodingRules().for_topic("payments", value=how)
    record = view(data, decoding=decoding, mask=mask)
    shown = str(record.row(characters_max=None))
    assert SECRET not in shown
    assert SECRET.encode().hex() not in shown


def test_null_stays_null(mask: TopicMask) -> None:
    record = view(None, None, headers=(("authorization", None),), mask=mask)
    assert (record.key.text, record.value.text, record.headers) == (
        None,
        None,
        [("authorization", None)],
    )


def test_other_topics_have_no_mask() -> None:
    assert not MaskRules([("pay*", TopicMask(key=True))]).for_topic("orders")


def test_whole_value_is_masked() -> None:
    assert view(b"4111-1111", mask=TopicMask(value=True)).value.text == MASK


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("- topics: a", "masks nothing"),
        ("- topics: a\n  mask: [partition]", "cannot be masked"),
        ("- topics: a\n  mask: ['json.a=5']", "no field alone"),
        ("- topics: a\n  mask: [vale]", "did you mean value"),
        ("- topics: a\n  masks: [key]", "did you mean mask"),
    ],
)
def test_mask_that_would_hide_nothing_is_refused(tmp_path: Path, text: str, part: str) -> None:
    """A rule that is mistyped must not show what it was to hide."""
    path = tmp_path / "masks.yaml"
    path.write_text(text)
    with pytest.raises(RulesError, match=part):
        read_mask_rules(path)

"""The checker itself: it must find each kind of contradiction, or the simulations prove nothing."""

import pytest

from barnabas_protocol.records.record import Record
from tests.simulation.history import Append, HistoryError, Partition, Setting, check_partition


def partition() -> Partition:
    return Partition(
        [
            Append("a", 0, [b"1", b"2"], base_offset=0),
            Append("a", 2, [b"3"], base_offset=2),
            Append("a", 3, [b"4", b"5"]),
        ]
    )


def records(*values: bytes) -> list[Record]:
    return [Record(offset, 0, None, value, ()) for offset, value in enumerate(values)]


@pytest.mark.parametrize("values", [b"123", b"12345"])
def test_what_was_acknowledged_and_perhaps_more_is_right(values: bytes) -> None:
    check_partition(partition(), records(*(bytes([v]) for v in values)), is_durable=True)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (b"12", "gone"),
        (b"1233", "twice"),
        (b"1234", "in part"),
        (b"1239", "nobody sent"),
        (b"312", "is at"),
        (b"12435", "not in one piece|is at"),
    ],
    ids=["lost", "duplicate", "half a batch", "foreign", "moved", "mixed"],
)
def test_each_contradiction_is_found(values: bytes, reason: str) -> None:
    with pytest.raises(HistoryError, match=reason):
        check_partition(partition(), records(*(bytes([v]) for v in values)), is_durable=True)


def test_a_reader_must_find_again_what_it_saw() -> None:
    seen = partition()
    check_partition(seen, records(b"1", b"2", b"3", b"4", b"5"), is_durable=True)
    with pytest.raises(HistoryError, match="a reader saw"):
        check_partition(seen, records(b"1", b"2", b"3"), is_durable=True)


def test_senders_order_holds_even_where_records_may_be_lost() -> None:
    with pytest.raises(HistoryError, match="before its sender's"):
        check_partition(partition(), records(b"3", b"1", b"2"), is_durable=False)


def test_a_setting_is_the_acknowledged_or_an_asked_one() -> None:
    setting = Setting(1)
    setting.ask(2)
    setting.settle(2, "it")
    with pytest.raises(HistoryError):
        setting.settle(1, "it")

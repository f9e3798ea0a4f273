"""From Arrow rows to lists by topic and partition: everything about columns, without Spark."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas_client.producer.partitioner import partition_of_key
from barnabas_pipelines.datasource import record_rows
from barnabas_pipelines.datasource.record_rows import RowGroup, by_partition, by_topic, chunks
from barnabas_pipelines.errors import ColumnsError

pa = pytest.importorskip("pyarrow")

NOW_MS = 1_700_000_000_000
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TYPES = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "headers": HEADERS,
}


def rows(**columns: list[Any]) -> Any:
    arrays = {name: pa.array(column, TYPES[name]) for name, column in columns.items()}
    return pa.RecordBatch.from_pydict(arrays)


def groups(batch: Any, partition_count: int | None = None) -> list[RowGroup]:
    return list(by_partition(batch, partition_count, NOW_MS))


STRING_VALUE = ("value", "string")


@pytest.mark.parametrize(
    ("columns", "has_topic", "expected"),
    [
        ([STRING_VALUE], False, "topic option required when no 'topic' attribute is present"),
        ([("key", "string")], True, "Required attribute 'value' not found"),
        ([("VALUE", "string")], True, "Required attribute 'value' not found"),
        ([("value", "int")], True, "value attribute unsupported type int"),
        ([STRING_VALUE, ("key", "bigint")], True, "key attribute unsupported type bigint"),
        ([STRING_VALUE, ("partition", "bigint")], True, r"partition must be a\(n\) int"),
        ([STRING_VALUE, ("topic", "int")], False, "topic attribute unsupported type int"),
        ([STRING_VALUE, ("headers", "string")], True, "headers attribute unsupported type string"),
        ([STRING_VALUE, ("timestamp", "string")], True, "rename or drop the column"),
    ],
)
def test_wrong_columns_are_refused_in_the_connector_s_words(
    columns: Sequence[tuple[str, str]], has_topic: bool, expected: str
) -> None:
    """Who changes `format("kafka")` to `format("barnabas")` sees the same errors."""
    with pytest.raises(ColumnsError, match=expected):
        record_rows.check_columns(columns, has_topic=has_topic)


def test_columns_that_are_not_the_record_s_are_ignored() -> None:
    """What was read from a topic can be written as it is: it has offset and timestampType, too."""
    columns = [STRING_VALUE, ("key", "binary"), ("topic", "string"), ("partition", "int")]
    columns += [("offset", "bigint"), ("timestamp", "timestamp"), ("timestampType", "int")]
    record_rows.check_columns([*columns, ("headers", record_rows.HEADERS_TYPE)], has_topic=False)


def test_rows_without_key_and_partition_may_go_anywhere() -> None:
    """They are one group without a partition, so that the producer fills batches."""
    batch = rows(value=[b"a", None, b"c"])
    assert not record_rows.needs_partition_count(batch)
    assert groups(batch) == [
        RowGroup(
            partition=None,
            values=[b"a", None, b"c"],
            keys=None,
            timestamps_ms=[NOW_MS] * 3,
            headers=None,
        )
    ]


@given(
    st.lists(st.tuples(st.none() | st.binary(max_size=9), st.none() | st.integers(0, 5))),
    st.integers(0, 3),
)
def test_rows_are_grouped_by_partition_in_their_order(
    pairs: list[tuple[bytes | None, int | None]], skipped: int
) -> None:
    """The partition column comes first, then the key's hash, then any (PRD-3)."""
    values = [b"%d" % number for number in range(len(pairs))]
    keys = [key for key, _ in pairs]
    batch = rows(value=values, key=keys, partition=[number for _, number in pairs])[skipped:]
    expected: dict[int | None, list[bytes]] = {}
    for (key, number), value in list(zip(pairs, values, strict=True))[skipped:]:
        if number is None and key is not None:
            number = partition_of_key(key, 7)
        expected.setdefault(number, []).append(value)
    count = 7 if record_rows.needs_partition_count(batch) else None
    found = groups(batch, count)
    assert {group.partition: group.values for group in found} == expected
    assert len(found) == len(expected)
    for group in found:
        assert group.keys is None or [keys[int(v)] for v in group.values if v] == group.keys


def test_a_negative_partition_is_refused() -> None:
    """It would else mean "any" by accident."""
    with pytest.raises(ColumnsError, match="Invalid partition: -3"):
        groups(rows(value=[b"a", b"b"], partition=[1, -3]))


def test_timestamps_are_kept_to_the_millisecond() -> None:
    """Spark has microseconds; null, and the -1 ms of records without one, mean now."""
    batch = rows(value=[b"v"] * 5, timestamp=[0, 1_999, 1_700_000_123_456_789, None, -1000])
    (group,) = groups(batch)
    assert group.timestamps_ms == [0, 1, 1_700_000_123_456, NOW_MS, NOW_MS]


def test_headers_keep_order_doubles_and_nulls() -> None:
    """They are a list, not a mapping; a row without any has an empty one."""
    some = [("a", b"1"), ("a", None), ("b", b"")]
    batch = rows(value=[b"v"] * 5, headers=[[("x", b"y")], None, some, [], [("c", b"3")]])[1:]
    (group,) = groups(batch)
    assert group.headers == [[], some, [], [("c", b"3")]]


def test_a_column_of_empty_headers_costs_nothing() -> None:
    """Rows that were read with includeHeaders have the column, mostly empty."""
    (group,) = groups(rows(value=[b"v"] * 2, headers=[None, []]))
    assert group.headers is None


def test_text_is_written_as_utf_8() -> None:
    """Keys and values may be strings, as with the connector."""
    batch = pa.RecordBatch.from_pydict({"value": ["ü", None], "key": ["k", "ö"]})
    (group,) = groups(batch, 1)
    assert group.values == ["ü".encode(), None]
    assert group.keys == [b"k", "ö".encode()]


def test_rows_go_to_the_topics_that_their_column_names() -> None:
    """The option wins over the column; without both a row cannot be written."""
    batch = rows(value=[b"1", b"2", b"3"], topic=["a", "b", "a"])
    found = {topic: part.column("value").to_pylist() for topic, part in by_topic(batch, None)}
    assert found == {"a": [b"1", b"3"], "b": [b"2"]}
    ((topic, whole),) = by_topic(batch, "other")
    assert (topic, whole.num_rows) == ("other", 3)
    with pytest.raises(ColumnsError, match="null topic"):
        list(by_topic(rows(value=[b"1", b"2"], topic=["a", None]), None))


def test_large_batches_are_taken_in_pieces() -> None:
    """What is made into Python objects at once is bounded by rows and by bytes."""
    small = rows(value=[b""] * 40_000)
    assert [piece.num_rows for piece in chunks(small)] == [16_384, 16_384, 7_232]
    large = rows(value=[bytes(4 << 20)] * 5)
    assert max(piece.num_rows for piece in chunks(large)) <= 2
    assert sum(piece.num_rows for piece in chunks(large)) == 5
    assert list(chunks(rows(value=[]))) == []

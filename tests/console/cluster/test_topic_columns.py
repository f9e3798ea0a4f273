"""What lists show of all topics, in columns (`topic_columns`)."""

import asyncio
import sys
from collections.abc import Mapping
from typing import Any

from barnabas_client.admin.values.topics import PartitionDescription, TopicDescription
from barnabas_client.facts.topic_facts import summary
from barnabas_console.cluster.topic_columns import ROW_FIELDS, TopicColumns, TopicList, ValueOf
from tests.support.loop_turns import spent_slices, turns_beside


def topic(name: str, *, internal: bool = False, topic_id: bytes = bytes(16)) -> TopicDescription:
    """Two partitions; the second has no leader and lacks a replica."""
    partitions = {
        0: PartitionDescription(
            partition=0, leader_id=1, replica_ids=(1, 2), in_sync_replica_ids=(1, 2)
        ),
        1: PartitionDescription(
            partition=1, leader_id=None, replica_ids=(1, 2), in_sync_replica_ids=(2,)
        ),
    }
    return TopicDescription(
        name=name, partitions=partitions, is_internal=internal, topic_id=topic_id
    )


def columns(*topics: TopicDescription) -> TopicColumns:
    found = TopicColumns()
    for one in topics:
        found.add(one, None)
    return found


def page(
    found: TopicColumns, wanted: TopicList, beside: Mapping[str, ValueOf] | None = None
) -> tuple[int, list[dict[str, Any]]]:
    return asyncio.run(found.page(wanted, spent_slices(), beside))


def test_a_row_is_what_the_command_line_has_of_the_topic() -> None:
    """CON-102: all of `summary`, and the size."""
    known, without_id = topic("a", topic_id=bytes(range(16))), topic("b", internal=True)
    _, rows = page(columns(known, without_id), TopicList(with_internal=True))
    assert rows == [{**summary(one), "size_bytes": None} for one in (known, without_id)]
    assert tuple(rows[0]) == ROW_FIELDS


def test_lists_are_searched_sorted_and_cut() -> None:
    """CON-112: 10,000 topics, by any column, a page of them at a time."""
    found = TopicColumns()
    for number in range(10_000):
        found.add(topic(f"orders-{number:05}"), None if number % 2 else number)
    found.add(topic("other", internal=True), None)
    total, rows = page(found, TopicList(offset=9_990, limit=100))
    assert total == 10_000
    assert [row["topic"] for row in rows] == [f"orders-{one:05}" for one in range(9_990, 10_000)]
    total, rows = page(found, TopicList(sort="size_bytes", is_descending=True, limit=2))
    assert [row["size_bytes"] for row in rows] == [9_998, 9_996]
    _, rows = page(found, TopicList(sort="size_bytes", limit=1))
    assert rows[0]["size_bytes"] == 0
    _, rows = page(found, TopicList(sort="size_bytes", offset=9_999))
    assert rows[0]["size_bytes"] is None  # what is unknown is neither small nor large
    assert page(found, TopicList(text="ORDERS-0001"))[0] == 10
    assert page(found, TopicList(text="other"))[0] == 0
    assert page(found, TopicList(text="other", with_internal=True))[0] == 1


def test_every_column_sorts_and_so_does_what_others_tell() -> None:
    """CON-112; equals stay in the order of names."""
    found = columns(topic("a"), topic("b", internal=True), topic("c", topic_id=b"\x01" * 16))
    for field in ROW_FIELDS:
        _, rows = page(found, TopicList(sort=field, with_internal=True))
        values = [row[field] for row in rows]
        assert values == sorted(values, key=lambda one: (one is None, one))
    told = {"b": 1.0, "c": 2.0}
    _, rows = page(
        found, TopicList(sort="rate", is_descending=True, with_internal=True), {"rate": told.get}
    )
    assert [(row["topic"], row["rate"]) for row in rows] == [("c", 2.0), ("b", 1.0), ("a", None)]


def test_lists_are_made_in_slices() -> None:
    """CON-174: in one piece, ten thousand topics by their ids held the loop for 20 ms."""
    found = columns(*(topic(f"orders-{number:05}") for number in range(10_000)))
    for wanted in (TopicList(sort="topic_id"), TopicList(limit=10_000)):
        _, turns = asyncio.run(turns_beside(found.page(wanted, spent_slices())))
        assert turns >= 200


def test_readings_share_their_names() -> None:
    """CON-174: each viewer has a reading, and the history reads names for itself."""
    first, second = (columns(topic("".join(("or", "ders")))) for _ in range(2))
    (one,), (other,) = first.names, second.names
    assert one is other is sys.intern("orders")

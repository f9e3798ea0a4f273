"""What a table says of itself is found again, whatever others did to it in between."""

from typing import Any

import pytest

from barnabas_pipelines.tables.marks import (
    Commit,
    Gap,
    Mark,
    TableChangedError,
    TopicReach,
    newest_mark,
    parse_mark,
)

REACH = TopicReach(
    name="orders",
    topic_id="abc",
    starts={0: 5, 1: 0},
    ends={0: 10, 1: 2**40},
    gaps=(Gap(0, 7, 9), Gap(1, 0, 3)),
)


def mark(sequence: int, base: int) -> Mark:
    return Mark(
        kind="archive", sequence=sequence, attempt=f"try {sequence}", topics=(REACH,), base=base
    )


def commit(version: int, operation: str = "WRITE", **more: Any) -> Commit:
    """A commit; one of a job where `sequence` says so, on the version before it or on `base`."""
    sequence, base = more.pop("sequence", None), more.pop("base", version - 1)
    return Commit(
        version=version,
        timestamp_ms=1000 * version,
        operation=operation,
        parameters=more.pop("parameters", {}),
        user_metadata=None if sequence is None else mark(sequence, base).to_text(),
        **more,
    )


def test_what_is_written_is_read_back() -> None:
    """Offsets need more than 32 bits; a topic may have no id."""
    assert parse_mark(mark(3, 7).to_text()) == mark(3, 7)
    nameless = Mark(
        kind="snapshot",
        sequence=1,
        attempt="x",
        topics=(TopicReach(name="t", topic_id=None, starts={}, ends={}),),
        base=-1,
        facts={"decoding": "json"},
    )
    assert parse_mark(nameless.to_text()) == nameless


@pytest.mark.parametrize("text", [None, "", "by hand", "[]", "7", '{"barnaby": 1}'])
def test_what_others_write_is_no_mark(text: str | None) -> None:
    """Anybody may put something into the metadata of a commit."""
    assert parse_mark(text) is None


def test_a_newer_form_is_not_guessed_at() -> None:
    """An older version of the package must not double what a newer one has written."""
    with pytest.raises(TableChangedError, match="newer version"):
        parse_mark('{"barnabas": 2}')


@pytest.mark.parametrize(
    "others",
    [
        [],
        [commit(9, "OPTIMIZE")],
        [commit(9, "VACUUM END"), commit(8, "VACUUM START")],
        [commit(9, "DELETE")],
        [commit(9, "WRITE", parameters={"mode": "Append"})],
        [commit(9, "SET TBLPROPERTIES"), commit(8, "OPTIMIZE")],
    ],
)
def test_commits_of_others_lie_between_without_harm(others: list[Commit]) -> None:
    """Small files are put together, old ones deleted, old days dropped by whoever wishes."""
    history = [*others, commit(5, sequence=4), commit(4, sequence=3)]
    assert newest_mark(history) == mark(4, 4)


def test_a_table_that_was_taken_back_has_what_it_had_then() -> None:
    """The newest commit of a job is not what counts: its rows are gone. Twice is possible."""
    history = [
        commit(7, "RESTORE", parameters={"version": "4"}),
        commit(6, sequence=4),
        commit(5, "OPTIMIZE"),
        commit(4, "RESTORE", parameters={"version": "1"}),
        commit(3, sequence=3),
        commit(2, sequence=2),
        commit(1, sequence=1),
    ]
    assert newest_mark(history) == mark(1, 0)
    assert newest_mark([commit(8, sequence=5), *history]) == mark(5, 7)
    with pytest.raises(TableChangedError, match="to a version"):
        newest_mark([commit(9, "RESTORE", parameters={"timestamp": "2026"}), commit(8, sequence=1)])


@pytest.mark.parametrize(
    "other",
    [
        commit(6, "WRITE", parameters={"mode": "Overwrite"}),
        commit(6, "MERGE"),
        commit(6, "UPDATE"),
        commit(6, "TRUNCATE"),
        commit(6, "CREATE OR REPLACE TABLE AS SELECT"),
        commit(6, "something new"),
    ],
    ids=lambda one: str(one.operation),
)
def test_what_may_have_replaced_records_is_refused(other: Commit) -> None:
    """Going on would leave a hole that nothing tells of."""
    with pytest.raises(TableChangedError, match="version 6"):
        newest_mark([other, commit(5, sequence=1)])


@pytest.mark.parametrize(
    "other",
    [
        commit(6, "RESTORE", parameters={"version": "3"}),
        commit(6, "WRITE", parameters={"mode": "Overwrite"}),
    ],
    ids=lambda one: str(one.operation),
)
def test_a_batch_that_was_overtaken_by_one_who_took_records_away_is_refused(other: Commit) -> None:
    """Its mark says what the table had when it was planned; Delta lets an append pass."""
    before = [commit(5, sequence=2), commit(4, sequence=1)]
    overtaken = commit(7, sequence=3, base=5)
    with pytest.raises(TableChangedError, match=r"version 6 .* RESTORE it to version 6"):
        newest_mark([overtaken, other, *before])
    with pytest.raises(TableChangedError, match="version 6"):
        newest_mark([commit(8, "OPTIMIZE"), overtaken, other, *before])
    harmless = commit(6, "OPTIMIZE")
    assert newest_mark([overtaken, harmless, *before]) == mark(3, 5)


def test_a_history_that_was_cleaned_away_has_no_mark() -> None:
    """Delta keeps a month of it; the caller asks the rows then."""
    assert newest_mark([commit(90, "OPTIMIZE"), commit(89, "OPTIMIZE")]) is None
    assert newest_mark([]) is None

"""The offset store: undo journal and transactions."""

from hypothesis import given
from hypothesis import strategies as st

from barnabas_broker.coordinator.group.offsets import OffsetStore
from barnabas_broker.coordinator.group.records import CommittedOffset, OffsetKey


def at(offset: int) -> CommittedOffset:
    return CommittedOffset(offset, -1, "", 0)


def key(partition: int, group: str = "g") -> OffsetKey:
    return OffsetKey(group, "t", partition)


Change = tuple[int, int, int | None]  # what to do, key, offset


@given(
    st.lists(
        st.tuples(
            st.lists(
                st.tuples(st.integers(0, 3), st.integers(0, 2), st.none() | st.integers(0, 9)),
                max_size=4,
            ),
            st.sampled_from(["commit", "roll back", "wait"]),
        ),
        max_size=12,
    )
)
def test_rolling_back_restores_what_was_there_before(
    commands: list[tuple[list[tuple[int, int, int | None]], str]],
) -> None:
    """OFS-5: any number of commands at once, the newest first."""
    store = OffsetStore()
    store.start_journal()

    def content() -> list[tuple[str, str, int, CommittedOffset]]:
        return sorted(store.all_offsets())

    before: list[tuple[int, object]] = []
    for sequence, (changes, end) in enumerate(commands, start=1):
        before.append((sequence, content()))
        store.begin(sequence)
        for group, partition, offset in changes:
            if offset is None:
                store.remove(key(partition, f"g{group}"))
            else:
                store.put(key(partition, f"g{group}"), at(offset))
        if end == "commit":
            store.committed(sequence)
            before.clear()
        elif end == "roll back":
            first, expected = before[0]
            store.roll_back(first)
            assert content() == expected
            before.clear()


def test_an_offset_of_a_transaction_shows_after_its_commit() -> None:
    """formats.md 10; an abort drops it."""
    for is_committed in (True, False):
        store = OffsetStore()
        store.put(key(0), at(1))
        store.put_pending(9, key(0), at(5))
        assert store.is_pending(key(0))
        assert store.has_pending_of("g")
        assert not store.is_pending(key(1))
        assert store.of_group("g")["t", 0] == at(1)
        store.end_transaction(9, is_committed)
        assert store.of_group("g")["t", 0] == at(5 if is_committed else 1)
        assert not store.is_pending(key(0))


def test_a_later_plain_commit_wins_over_the_transaction() -> None:
    """formats.md 10: later records win, and the marker is not the record."""
    store = OffsetStore()
    store.put_pending(9, key(0), at(5))
    store.put(key(0), at(7))
    store.put_pending(9, key(1), at(6))
    store.end_transaction(9, True)
    assert dict(store.of_group("g")) == {("t", 0): at(7), ("t", 1): at(6)}


def test_a_plain_commit_that_is_rolled_back_does_not_win() -> None:
    """OFS-5."""
    store = OffsetStore()
    store.put_pending(9, key(0), at(5))
    store.start_journal()
    store.begin(1)
    store.put(key(0), at(7))
    store.roll_back(1)
    store.end_transaction(9, True)
    assert store.of_group("g")["t", 0] == at(5)


def test_a_group_with_only_pending_offsets_is_known() -> None:
    """OFS-3, OFS-8."""
    store = OffsetStore()
    store.put_pending(9, key(0), at(5))
    assert list(store.group_ids()) == ["g"]
    assert store.has_any("g")
    store.end_transaction(9, False)
    assert not store.has_any("g")

"""The offset store: undo journal and transactions."""

from hypothesis import given
from hypothesis import strategies as st

from barnabas_broker.coordinator.group.offsets import OffsetStore
from barnabas_broker.coordinator.group.records import CommittedOffset, OffsetKey
from barnabas_broker.coordinator.runtime.journal import UndoJournal


def at(offset: int) -> CommittedOffset:
    return CommittedOffset(offset, -1, "\u00e9" * offset, 0)


def key(partition: int, group: str = "g") -> OffsetKey:
    return OffsetKey(group, "t", partition)


def counted(store: OffsetStore) -> tuple[int, int]:
    return store.count(), store.metadata_bytes()


def kept(store: OffsetStore) -> tuple[int, int]:
    """The same by looking at all that is there; `at` gives an offset two bytes for each of it."""
    offsets = [one[-1].offset for one in store.all_offsets()]
    offsets += [one.offset for _, _, one in store.undecided()]
    return len(offsets), 2 * sum(offsets)


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
    journal = UndoJournal()
    store = OffsetStore(journal)
    journal.start()

    def content() -> list[tuple[str, str, int, CommittedOffset]]:
        return sorted(store.all_offsets())

    before: list[tuple[int, object]] = []
    for sequence, (changes, end) in enumerate(commands, start=1):
        before.append((sequence, content()))
        journal.begin(sequence)
        for group, partition, offset in changes:
            if offset is None:
                store.remove(key(partition, f"g{group}"))
            else:
                store.put(key(partition, f"g{group}"), at(offset))
        if end == "commit":
            journal.committed(sequence)
            before.clear()
        elif end == "roll back":
            first, expected = before[0]
            journal.roll_back(first)
            assert content() == expected
            before.clear()
        assert counted(store) == kept(store)


def test_an_offset_of_a_transaction_shows_after_its_commit() -> None:
    """formats.md 10; an abort drops it."""
    for is_committed in (True, False):
        journal = UndoJournal()
        store = OffsetStore(journal)
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
    journal = UndoJournal()
    store = OffsetStore(journal)
    store.put_pending(9, key(0), at(5))
    store.put(key(0), at(7))
    store.put_pending(9, key(1), at(6))
    store.end_transaction(9, True)
    assert dict(store.of_group("g")) == {("t", 0): at(7), ("t", 1): at(6)}


def test_a_plain_commit_that_is_rolled_back_does_not_win() -> None:
    """OFS-5."""
    journal = UndoJournal()
    store = OffsetStore(journal)
    store.put_pending(9, key(0), at(5))
    journal.start()
    journal.begin(1)
    store.put(key(0), at(7))
    journal.roll_back(1)
    store.end_transaction(9, True)
    assert store.of_group("g")["t", 0] == at(5)


def test_a_group_with_only_pending_offsets_is_known() -> None:
    """OFS-3, OFS-8."""
    journal = UndoJournal()
    store = OffsetStore(journal)
    store.put_pending(9, key(0), at(5))
    assert list(store.group_ids()) == ["g"]
    assert store.has_any("g")
    store.end_transaction(9, False)
    assert not store.has_any("g")


def test_open_transaction_keeps_its_offset_when_an_earlier_one_is_published() -> None:
    """TXN-12: a marker publishes an offset unless one with a higher record offset is committed.

    Producer 9 wrote before producer 8 did; its marker comes first and must not take away what the
    other has written since.
    """
    for first, second in ((9, 8), (8, 9)):
        journal = UndoJournal()
        store = OffsetStore(journal)
        store.put_pending(9, key(0), at(5))
        store.put_pending(8, key(0), at(7))
        store.end_transaction(first, True)
        store.end_transaction(second, True)
        assert store.of_group("g")["t", 0] == at(7)
        assert not store.has_pending_of("g")


class RecordOffsets:
    """The rule of TXN-12 in Kafka's words: offsets of records decide, whatever came of them."""

    def __init__(self) -> None:
        self.committed: dict[int, tuple[int, CommittedOffset]] = {}
        self.pending: dict[tuple[int, int], tuple[int, CommittedOffset]] = {}

    def apply(self, record: int, change: tuple[str, int, int, int]) -> None:
        what, producer_id, partition, offset = change
        if what == "put":
            self.committed[partition] = record, at(offset)
        elif what == "remove":
            self.committed.pop(partition, None)
            for pending in [key for key in self.pending if key[1] == partition]:
                del self.pending[pending]
        elif what == "pend":
            self.pending[producer_id, partition] = record, at(offset)
        else:
            for of, partition in list(self.pending):
                if of != producer_id:
                    continue
                written = self.pending.pop((of, partition))
                if what == "commit" and written > self.committed.get(partition, (-1,)):
                    self.committed[partition] = written


transactional_changes = st.tuples(
    st.sampled_from(["put", "remove", "pend", "pend", "commit", "abort"]),
    st.integers(1, 3),
    st.integers(0, 1),
    st.integers(0, 9),
)


@given(
    st.lists(
        st.tuples(
            st.lists(transactional_changes, max_size=5),
            st.sampled_from(["commit", "roll back", "wait"]),
        ),
        max_size=10,
    )
)
def test_offsets_of_transactions_are_what_the_records_in_the_log_make_of_them(
    commands: list[tuple[list[tuple[str, int, int, int]], str]],
) -> None:
    """TXN-12, OFS-5: with commands that are refused in between, and after a load."""
    journal = UndoJournal()
    store = OffsetStore(journal)
    journal.start()
    log: list[tuple[str, int, int, int]] = []
    waiting: list[tuple[int, int]] = []  # sequence, log end before
    for sequence, (changes, end) in enumerate(commands, start=1):
        waiting.append((sequence, len(log)))
        journal.begin(sequence)
        for change in changes:
            apply(store, change)
            log.append(change)
        if end == "commit":
            journal.committed(sequence)
            waiting.clear()
        elif end == "roll back":
            first, log_end = waiting[0]
            journal.roll_back(first)
            del log[log_end:]
            waiting.clear()
        assert counted(store) == kept(store)
    loaded, expected = OffsetStore(UndoJournal()), RecordOffsets()
    for record, change in enumerate(log):
        apply(loaded, change)
        expected.apply(record, change)
    for one in (store, loaded):
        assert one.of_group("g") == {
            ("t", partition): committed for partition, (_, committed) in expected.committed.items()
        }
        assert counted(one) == kept(one)
        for producer_id in (1, 2, 3):
            one.end_transaction(producer_id, True)
    for record, producer_id in enumerate((1, 2, 3), start=len(log)):
        expected.apply(record, ("commit", producer_id, 0, 0))
    for one in (store, loaded):
        assert one.of_group("g") == {
            ("t", partition): committed for partition, (_, committed) in expected.committed.items()
        }
        assert not one.has_pending_of("g")


def apply(store: OffsetStore, change: tuple[str, int, int, int]) -> None:
    what, producer_id, partition, offset = change
    if what == "put":
        store.put(key(partition), at(offset))
    elif what == "remove":
        store.remove(key(partition))
    elif what == "pend":
        store.put_pending(producer_id, key(partition), at(offset))
    else:
        store.end_transaction(producer_id, what == "commit")

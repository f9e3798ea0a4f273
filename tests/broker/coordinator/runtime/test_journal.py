"""The undo journal: what is taken back, in which order, and what is forgotten."""

from barnabas_broker.coordinator.runtime.journal import UndoJournal


def noted() -> tuple[UndoJournal, list[str]]:
    journal, undone = UndoJournal(), list[str]()
    journal.start()
    for sequence in (1, 2, 3):
        journal.begin(sequence)
        for step in "ab":
            journal.note(undone.append, f"{sequence}{step}")
    return journal, undone


def test_a_roll_back_undoes_the_newest_change_first() -> None:
    """A later change may rest on an earlier one."""
    journal, undone = noted()
    journal.roll_back(2)
    assert undone == ["3b", "3a", "2b", "2a"]
    journal.roll_back(1)
    assert undone[4:] == ["1b", "1a"]


def test_what_is_committed_is_never_undone() -> None:
    """OFS-5: it is in the log."""
    journal, undone = noted()
    journal.committed(2)
    journal.roll_back(0)
    assert undone == ["3b", "3a"]


def test_nothing_is_noted_before_the_start() -> None:
    """Replay is not undone, and a partition may have millions of records."""
    journal, undone = UndoJournal(), list[str]()
    journal.note(undone.append, "replayed")
    journal.roll_back(0)
    assert undone == []

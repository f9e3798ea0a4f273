"""Which resources a pass takes: what changed, what is due, and never more than a part."""

from barnabas_operator.work.agenda import Agenda, Item


def items(*names: str, version: str = "1") -> list[Item]:
    return [Item(uid=name, version=version, subject=name) for name in names]


def settled(agenda: Agenda, taken: frozenset[str], due: float, version: str = "1") -> None:
    for uid in taken:
        agenda.settle(uid, version, due)


def test_many_resources_are_worked_off_in_parts_of_a_bounded_size() -> None:
    agenda = Agenda(items_max=2)
    there = items("a", "b", "c", "d", "e")
    seen: list[str] = []
    while taken := agenda.take(there, now=0):
        assert len(taken) <= 2
        seen += sorted(taken)
        settled(agenda, taken, due=60)
    assert sorted(seen) == ["a", "b", "c", "d", "e"]
    assert agenda.next_due == 60


def test_only_what_has_changed_is_looked_at_before_its_time() -> None:
    agenda = Agenda(items_max=10)
    there = items("a", "b", "c")
    settled(agenda, agenda.take(there, now=0), due=60)
    assert agenda.take(there, now=59) == frozenset()
    assert agenda.take([*items("a", "c"), *items("b", version="2")], now=59) == {"b"}
    settled(agenda, frozenset("b"), due=119, version="2")
    assert agenda.take([*items("a", "c"), *items("b", version="2")], now=60) == {"a", "c"}


def test_resources_of_one_subject_are_taken_together_and_when_one_of_them_has_gone() -> None:
    """Which of two Topics has a topic is decided with both at hand."""
    agenda = Agenda(items_max=1)
    first = Item(uid="a", version="1", subject="orders")
    second = Item(uid="b", version="1", subject="orders")
    assert agenda.take([first, second], now=0) == {"a", "b"}
    settled(agenda, frozenset("ab"), due=60)
    assert agenda.take([second], now=1) == {"b"}


def test_what_is_not_settled_comes_again_after_the_others() -> None:
    """A pass that fails for ever at the same resources keeps no other ones waiting."""
    agenda = Agenda(items_max=2)
    there = items("a", "b", "c", "d")
    assert agenda.take(there, now=0) == {"a", "b"}
    assert agenda.take(there, now=1) == {"c", "d"}
    assert agenda.take(there, now=2) == {"a", "b"}


def test_a_restart_has_everything_looked_at() -> None:
    agenda = Agenda(items_max=10)
    settled(agenda, agenda.take(items("a", "b"), now=0), due=60)
    agenda.restart(5)
    assert agenda.take(items("a", "b"), now=5) == {"a", "b"}

"""The check of histories of transactions finds each anomaly by name, and nothing in sound ones."""

import random

import pytest

from tests.simulation.list_append import (
    Append,
    Kind,
    ListTransaction,
    Outcome,
    Read,
    anomalies,
)

X, Y = ("x", 0), ("y", 0)
COMMITTED, ABORTED, IN_DOUBT = Outcome.COMMITTED, Outcome.ABORTED, Outcome.IN_DOUBT


def one(
    name: str, *steps: Append | Read, outcome: Outcome = COMMITTED, time: int | None = None
) -> ListTransaction:
    """A transaction; with a time it lasts from then until shortly after."""
    ended = None if time is None else time + 0.5
    return ListTransaction(name, list(steps), outcome, time, ended)


HISTORIES: dict[str, tuple[list[ListTransaction], dict[tuple[str, int], str], set[Kind]]] = {
    "one after the other": (
        [
            one("t1", Append(X, "1"), Append(Y, "2"), time=1),
            one("t2", Read(X, ("1",)), Read(Y, ("2",)), Append(X, "3"), time=2),
        ],
        {X: "13", Y: "2"},
        set(),
    ),
    "its own appends are seen": (
        [one("t1", Append(X, "1"), Read(X, ("1",)), Append(X, "2"))],
        {X: "12"},
        set(),
    ),
    "what was aborted and not seen": (
        [one("t1", Append(X, "1"), Read(Y, ("9",)), outcome=ABORTED), one("t2", Append(X, "2"))],
        {X: "2", Y: ""},
        set(),
    ),
    "in doubt, and all of it there": (
        [one("t1", Append(X, "1"), Append(Y, "2"), outcome=IN_DOUBT)],
        {X: "1", Y: "2"},
        set(),
    ),
    "in doubt, and nothing of it there": (
        [one("t1", Append(X, "1"), Append(Y, "2"), outcome=IN_DOUBT)],
        {X: "", Y: ""},
        set(),
    ),
    "in doubt and torn": (
        [one("t1", Append(X, "1"), Append(Y, "2"), outcome=IN_DOUBT)],
        {X: "1", Y: ""},
        {Kind.LOST},
    ),
    "lost": ([one("t1", Append(X, "1"))], {X: ""}, {Kind.LOST}),
    "of nobody": ([], {X: "1"}, {Kind.STRANGE}),
    "twice": ([one("t1", Append(X, "1"))], {X: "11"}, {Kind.DOUBLED}),
    "two orders": (
        [
            one("t1", Append(X, "1")),
            one("t2", Append(X, "2")),
            one("r", Read(X, ("2",))),
        ],
        {X: "12"},
        {Kind.INCOMPATIBLE},
    ),
    "an aborted read in the end": (
        [one("t1", Append(X, "1"), outcome=ABORTED)],
        {X: "1"},
        {Kind.ABORTED_READ},
    ),
    "an aborted read meanwhile": (
        [one("t1", Append(X, "1"), outcome=ABORTED), one("r", Read(X, ("1",)))],
        {X: ""},
        {Kind.ABORTED_READ},
    ),
    "an intermediate read": (
        [one("t1", Append(X, "1"), Append(X, "2")), one("r", Read(X, ("1",)))],
        {X: "12"},
        # It also depends on one that comes after it.
        {Kind.INTERMEDIATE_READ, Kind.SINGLE},
    ),
    "G0": (
        [
            one("t1", Append(X, "1"), Append(Y, "2")),
            one("t2", Append(X, "3"), Append(Y, "4")),
        ],
        {X: "13", Y: "42"},
        {Kind.WRITE_CYCLE},
    ),
    "G0 by real time": (
        [one("t1", Append(X, "1"), time=2), one("t2", Append(X, "2"), time=1)],
        {X: "12"},
        {Kind.WRITE_CYCLE},
    ),
    "G1c": (
        [
            one("t1", Append(X, "1"), Read(Y, ("2",))),
            one("t2", Append(Y, "2"), Read(X, ("1",))),
        ],
        {X: "1", Y: "2"},
        {Kind.CIRCULAR_FLOW},
    ),
    "G-single": (
        [one("t1", Append(X, "1"), Append(Y, "2")), one("r", Read(X, ("1",)), Read(Y, ()))],
        {X: "1", Y: "2"},
        {Kind.SINGLE},
    ),
    "G-single by real time": (
        [one("t1", Append(X, "1"), time=1), one("r", Read(X, ()), time=2)],
        {X: "1"},
        {Kind.SINGLE},
    ),
    "G2": (
        [
            one("t1", Read(X, ()), Append(Y, "1")),
            one("t2", Read(Y, ()), Append(X, "2")),
        ],
        {X: "2", Y: "1"},
        {Kind.ANTI_DEPENDENCIES},
    ),
}


@pytest.mark.parametrize("name", HISTORIES)
def test_a_history_has_the_anomalies_that_it_was_made_with(name: str) -> None:
    """Each by its name, and no other."""
    transactions, final, kinds = HISTORIES[name]
    found = anomalies(transactions, {key: tuple(values) for key, values in final.items()})
    assert {anomaly.kind for anomaly in found} == kinds, found


@pytest.mark.parametrize("seed", range(20))
def test_a_serial_history_is_sound_and_one_that_forgets_an_append_is_not(seed: int) -> None:
    """Whatever is done one after the other is serializable; a read that lacks one append is not."""
    draws = random.Random(seed)
    lists: dict[tuple[str, int], list[str]] = {("k", index): [] for index in range(3)}
    history = []
    for time in range(60):
        transaction = one(f"t{time}", outcome=draws.choice((COMMITTED, ABORTED)), time=time)
        pending: list[Append] = []
        for key in draws.sample(list(lists), draws.randint(1, 3)):
            transaction.steps.append(Read(key, tuple(lists[key])))
            pending += [Append(key, f"{time}-{n}") for n in range(draws.randint(0, 2))]
        transaction.steps += pending
        if transaction.outcome is COMMITTED:
            for append in pending:
                lists[append.key].append(append.value)
        history.append(transaction)
    assert anomalies(history, lists) == []
    committed = [t for t in history if t.outcome is COMMITTED]
    reading = next(
        (t, index, step)
        for t in reversed(committed)
        for index, step in enumerate(t.steps)
        if isinstance(step, Read) and len(step.values) > 1
    )
    transaction, index, step = reading
    transaction.steps[index] = Read(step.key, step.values[:-1])
    kinds = {anomaly.kind for anomaly in anomalies(history, lists)}
    assert kinds & {Kind.SINGLE, Kind.INTERMEDIATE_READ}

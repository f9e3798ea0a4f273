"""What became of each item of a call that names several.

One item's failure is no reason to hide what became of the others, so calls with many items respond
with `Outcomes`: a mapping with an `Outcome`, a value or an error, for every item of the call.

    created = await admin.topics.create([NewTopic(name="a"), NewTopic(name="b")])
    created["a"].unwrap()       # the value, or raises its error
    created.unwrap()            # {"a": ..., "b": ...}, or raises the first error
    created.errors              # {"b": AlreadyExistsError(...)}

Invariants: an outcome is either a value or an error; the order is that of the call.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Generic, TypeVar

from barnabas_client.errors import BarnabasError

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Outcome(Generic[T_co]):
    """A value, or the error that came in its place."""

    __slots__ = ("_value", "error")

    error: BarnabasError | None
    _value: T_co

    @classmethod
    def of(cls, value: T) -> Outcome[T]:
        """The outcome of an item that went well."""
        outcome: Outcome[T] = Outcome.__new__(Outcome)
        outcome._value = value
        outcome.error = None
        return outcome

    @classmethod
    def failed(cls, error: BarnabasError) -> Outcome[T_co]:
        """The outcome of an item that did not."""
        outcome: Outcome[T_co] = cls.__new__(cls)
        outcome.error = error
        return outcome

    @property
    def is_ok(self) -> bool:
        """Whether there is a value."""
        return self.error is None

    def unwrap(self) -> T_co:
        """The value.

        Raises: the error, if there is none.
        """
        if self.error is not None:
            raise self.error
        return self._value

    def __repr__(self) -> str:
        """Return what a failing test or a log shows."""
        if self.error is not None:
            return f"Outcome.failed({self.error!r})"
        return f"Outcome.of({self._value!r})"


class Outcomes(Mapping[K, Outcome[T_co]]):
    """The outcome of every item of a call, in the order of the call."""

    __slots__ = ("_outcomes",)

    def __init__(self, outcomes: Mapping[K, Outcome[T_co]]) -> None:
        self._outcomes = dict(outcomes)

    def __getitem__(self, key: K) -> Outcome[T_co]:
        """Return the outcome of an item of the call."""
        return self._outcomes[key]

    def __iter__(self) -> Iterator[K]:
        """Iterate over the items."""
        return iter(self._outcomes)

    def __len__(self) -> int:
        """Return how many items there are."""
        return len(self._outcomes)

    def __repr__(self) -> str:
        """Return what a failing test or a log shows."""
        return f"Outcomes({self._outcomes!r})"

    @property
    def errors(self) -> dict[K, BarnabasError]:
        """The items that failed."""
        return {key: one.error for key, one in self._outcomes.items() if one.error is not None}

    @property
    def successes(self) -> dict[K, T_co]:
        """The values of the items that went well."""
        return {key: one.unwrap() for key, one in self._outcomes.items() if one.is_ok}

    def unwrap(self) -> dict[K, T_co]:
        """All values.

        Raises: the first error if any item failed; a note on it names how many others did.
        """
        errors = self.errors
        if errors:
            first, *others = errors.items()
            error = first[1]
            if others and not getattr(error, "__notes__", None):
                count = f"{len(others)} more item{'s' * (len(others) > 1)}"
                error.add_note(f"{count} failed, the next is {others[0][0]}")
            raise error
        return self.successes

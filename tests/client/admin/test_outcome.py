"""Outcomes: a value or an error per item, all at once for who wants all or nothing."""

import pytest

from barnabas_client.admin.outcome import Outcome, Outcomes
from barnabas_client.errors import AlreadyExistsError, NotFoundError


def test_an_outcome_gives_its_value_or_raises_its_error() -> None:
    """What an item came to is one of two things, and None is a value too."""
    assert Outcome.of(None).unwrap() is None
    assert Outcome.of(3).is_ok
    failed: Outcome[int] = Outcome.failed(NotFoundError("no"))
    assert not failed.is_ok
    with pytest.raises(NotFoundError, match="no"):
        failed.unwrap()


def test_outcomes_part_what_went_well_from_what_did_not() -> None:
    """One item's failure does not hide the others."""
    error = NotFoundError("b is not there")
    outcomes: Outcomes[str, int] = Outcomes({"a": Outcome.of(1), "b": Outcome.failed(error)})
    assert list(outcomes) == ["a", "b"]
    assert outcomes.successes == {"a": 1}
    assert outcomes.errors == {"b": error}
    assert outcomes["a"].unwrap() == 1


def test_unwrapping_gives_all_values_or_the_first_error_with_a_note_on_the_others() -> None:
    """A script that wants all or nothing learns that there was more than one failure."""
    assert Outcomes({"a": Outcome.of(1), "b": Outcome.of(2)}).unwrap() == {"a": 1, "b": 2}
    outcomes: Outcomes[str, int] = Outcomes(
        {
            "a": Outcome.of(1),
            "b": Outcome.failed(NotFoundError("b")),
            "c": Outcome.failed(AlreadyExistsError("c")),
        }
    )
    for _ in range(2):
        with pytest.raises(NotFoundError) as raised:
            outcomes.unwrap()
        assert raised.value.__notes__ == ["1 more item failed, the next is c"]

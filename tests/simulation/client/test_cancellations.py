"""Every public coroutine cancelled at each of its awaits."""

from pathlib import Path

import pytest

from tests.simulation.client.cancellations import Case, cases, row, run, table

CASES = cases()
PAGE = Path(__file__).resolve().parents[3] / "docs/client/cancellations.md"


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_call_can_be_cancelled_at_every_await(case: Case) -> None:
    """Afterwards the client works, closes, leaves nothing, and has lost and skipped nothing."""
    ((_, count),) = table([case])
    assert count == run(case, 0), "the number of awaits is not the same every time"
    assert row(case.name, count) in PAGE.read_text(encoding="utf-8"), (
        "make the table anew: python -m tests.simulation.client cancellations"
    )

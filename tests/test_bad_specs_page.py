"""The page of bad specs has the table whose rows are tried on a real Kubernetes."""

from tests.e2e.support.bad_specs import PAGE, ROWS, with_table


def test_the_page_has_the_rows_that_are_tried() -> None:
    """Otherwise: python -m tests.e2e.support.bad_specs."""
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_table(page)


def test_there_are_rows_of_every_kind_with_names_of_their_own() -> None:
    """Issue 17: a table of thirty bad specs."""
    assert len({row.name for row in ROWS}) == len(ROWS) >= 30
    assert len({row.reason for row in ROWS if row.is_quick}) >= 4

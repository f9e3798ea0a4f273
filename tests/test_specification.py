"""What is read from the specification's pages and from texts that cite its ids."""

from tests.specification import Definition, cited_ids, definitions_in, with_tables, with_tests

# Made of two parts, so that this module does not cite them.
FIRST, SECOND, THIRD = ("RAFT" + f"-{number}" for number in (1, 2, 3))
PAGE = f"""# Page

| id | what must hold | Barnabas | source | tests |
|---|---|---|---|---|
| {FIRST} | it holds | yes | KIP-1 | none |
| {SECOND} | it holds, too | in part: the rest | ours | [gone](gone.py) |
| {THIRD} | it would hold | not yet: all | ours | none |
"""


def test_ids_are_found_in_sentences_and_ranges() -> None:
    """Whoever cites a range cites what is between its ends, also across the end of a line."""
    assert list(cited_ids(f"by {FIRST}, and ({THIRD}):")) == [FIRST, THIRD]
    assert list(cited_ids(f"{FIRST} to {THIRD}")) == [FIRST, SECOND, THIRD]
    assert list(cited_ids(f"{FIRST} to\n    # {SECOND}")) == [FIRST, SECOND]


def test_proposals_and_encodings_are_no_ids() -> None:
    """They look alike."""
    assert not list(cited_ids("KIP-1 to KIP-3, UTF-8, SCRAM-SHA-256"))


def test_a_page_gets_links_to_the_tests_that_cite_its_ids() -> None:
    """What is not a test is no test, and a link that nobody stands for goes."""
    cited = {FIRST: {"tests/broker/test_a.py", "broker/a.py"}, SECOND: {"broker/a.py"}}
    lines = with_tests(PAGE, cited).splitlines()
    assert lines[4].endswith("| KIP-1 | [test_a](../../tests/broker/test_a.py) |")
    assert lines[5].endswith("| ours | none |")


def test_the_readme_lists_what_is_implemented_and_has_no_test() -> None:
    """Not what is not there yet: nobody could test it."""
    rows = definitions_in("page.md", PAGE)
    assert [row.kind for row in rows] == ["yes", "in part", "not yet"]
    assert rows[0] == Definition(
        id=FIRST, requirement="it holds", status="yes", source="KIP-1", page="page.md"
    )
    template = "".join(
        f"<!-- begin: {name} -->\nstale\n<!-- end: {name} -->\n"
        for name in ("pages", "without a test")
    )
    written = with_tables(template, rows, {FIRST: {"tests/test_a.py"}})
    assert "| [page.md](page.md) | 3 | 1 | 1 | 1 | 1 |" in written
    assert f"[{SECOND}]" in written
    assert f"[{FIRST}]" not in written
    assert f"[{THIRD}]" not in written
    assert "stale" not in written
    assert with_tables(written, rows, {FIRST: {"tests/test_a.py"}}) == written

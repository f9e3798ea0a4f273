"""The page of concepts and the glossary: neither has words that the other lacks where it should."""

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"
OURS = "## What is ours alone"


def concepts(text: str) -> set[str]:
    """The words in bold at the start of a paragraph, one by one."""
    found = re.findall(r"^\*\*([^*]+?)\.?\*\*", text, re.MULTILINE)
    return {word.lower() for words in found for word in re.split(r", | and ", words)}


def glossary() -> list[str]:
    """The first cell of each row."""
    text = (DOCS / "glossary.md").read_text(encoding="utf-8")
    return [row.lower() for row in re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE)]


def test_every_concept_of_ours_is_in_the_glossary() -> None:
    """Issue 21: a glossary of every word of ours."""
    ours = concepts((DOCS / "concepts.md").read_text(encoding="utf-8").partition(OURS)[2])
    assert len(ours) > 10
    terms = glossary()
    assert not sorted(word for word in ours if not any(word in term for term in terms))


def test_the_glossary_has_each_word_once() -> None:
    """A term with two meanings has none."""
    terms = [term for term in glossary() if term not in ("term", "---")]
    assert len(terms) == len(set(terms))

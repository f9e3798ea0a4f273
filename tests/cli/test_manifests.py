"""Manifests from files: every problem with its file, line and document."""

from pathlib import Path

import pytest

from barnabas_cli.manifests import Loaded, ManifestError, load_specs

TOPIC = """\
apiVersion: barnabas.dev/v1alpha1
kind: Topic
metadata:
  name: {name}
spec:
  partitions: 3
"""


def load(text: str) -> Loaded:
    return load_specs(["-"], lambda: text)


def problems(text: str) -> tuple[str, ...]:
    with pytest.raises(ManifestError) as caught:
        load(text)
    return caught.value.wrong


def test_documents_lists_and_folders_are_read_in_order(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text(TOPIC.format(name="b") + "---\n" + TOPIC.format(name="c"))
    (tmp_path / "a.yml").write_text("---\n# nothing\n---\n" + TOPIC.format(name="a"))
    (tmp_path / "notes.txt").write_text("not a manifest")
    items = "".join(
        "- " + TOPIC.format(name=name).replace("\n", "\n  ").rstrip() + "\n" for name in "de"
    )
    loaded = load_specs(
        [str(tmp_path), "-"], lambda: f"apiVersion: v1\nkind: List\nitems:\n{items}"
    )
    assert [spec.topic for spec in loaded.specs] == list("abcde")
    assert sorted(spec.age for spec in loaded.specs) == [spec.age for spec in loaded.specs]


def test_other_kinds_are_left_aside_and_told() -> None:
    loaded = load(
        "apiVersion: v1\nkind: Secret\nmetadata: {name: x}\n---\n" + TOPIC.format(name="a")
    )
    assert [spec.topic for spec in loaded.specs] == ["a"]
    assert loaded.skipped == ("standard input:1 (document 1): v1 Secret is not for this command",)


def test_a_problem_has_the_line_of_its_field() -> None:
    """Issue 4: errors with file, document number and line."""
    text = TOPIC.format(name="a") + "---\n" + TOPIC.format(name="b") + "  partition: 4\n"
    assert problems(text) == (
        "standard input:14 (document 2): spec.partition: unknown field, did you mean 'partitions'?",
    )


def test_all_problems_are_told() -> None:
    text = "kind: Topic\nspec: {config: {a: {b: c}}}\n"
    assert len(problems(text)) == 2
    nested = TOPIC.format(name="a") + "  config:\n    a:\n      b: c\n"
    assert problems(nested) == (
        "standard input:8 (document 1): spec.config.a: must be a text, a number, true, false"
        " or null",
    )


def test_a_key_that_is_written_twice_is_a_problem() -> None:
    """YAML readers keep the last one without a word."""
    (problem,) = problems(TOPIC.format(name="a") + "  partitions: 5\n")
    assert problem == "standard input:7 (document 1): 'partitions' is written twice"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [1\n", "this is no YAML"),
        ("- 1\n", "a manifest is a mapping of fields"),
        ("apiVersion: barnabas.dev/v1alpha1\nkind: Topc\n", "'Topc' is none of Topic"),
    ],
)
def test_what_is_no_manifest(text: str, words: str) -> None:
    assert words in problems(text)[0]

"""Commands that the pages name exist, with the options and choices that they are given."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from barnabas_cli.main import main
from tests.cli.documented_sessions import ROOT

# What was written at its time stays as it was: decisions, and reports of what was found.
HISTORY = ("docs/decisions/", "docs/findings", "docs/operator-findings", "docs/trials")
PAGES = [
    path
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if not path.relative_to(ROOT).as_posix().startswith(HISTORY)
]
_FENCE = re.compile(r"^```(?:sh|console|bash)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`([^`\n]+)`")
_CALL = re.compile(r"(?:^|[|;&(] *|\$ |-- |bin/)barnabas (?!\d|and |or )([^|;&()<>#\n]+)")
# Stands for something: a word in capitals, or what is left out.
_PLACEHOLDER = re.compile(r"[A-Z][A-Z0-9_:=.-]*|.*[…{}\[\]$].*")


def calls(text: str) -> Iterator[str]:
    """What follows `barnabas` in commands of a page."""
    shells = _FENCE.findall(text)
    for block in shells:
        yield from _CALL.findall(block.replace("\\\n", " "))
    for code in _INLINE.findall(re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)):
        yield from _CALL.findall(code)


def mistakes(call: str) -> Iterator[str]:
    """What is wrong with a command."""
    try:
        words = shlex.split(call)
    except ValueError:
        return
    command: click.Command = main
    context = click.Context(main)
    while isinstance(command, click.Group):
        if not words or _PLACEHOLDER.fullmatch(words[0]) or words[0].startswith("-"):
            return
        found = command.get_command(context, words[0])
        if found is None:
            yield f"no command {words[0]}"
            return
        command, words = found, words[1:]
    leaf = click.Context(command)
    known = {
        name: option for option in command.params for name in (*option.opts, *option.secondary_opts)
    }
    for number, word in enumerate(words):
        if not word.startswith("-") or word == "-" or re.match(r"-\d", word):
            continue
        name, has_value, value = word.partition("=")
        if name in ("-h", "--help"):
            continue
        if name not in known:
            yield f"no option {name}"
            continue
        option = known[name]
        value = value if has_value else words[number + 1] if number + 1 < len(words) else ""
        if isinstance(option.type, click.Choice) and not _PLACEHOLDER.fullmatch(value):
            try:
                option.type.convert(value, option, leaf)
            except click.BadParameter as error:
                yield f"{name}: {error.message}"


def test_mistakes_are_seen() -> None:
    """The check is none that cannot fail, and pages have commands."""
    texts = [page.read_text(encoding="utf-8") for page in PAGES]
    assert sum(1 for text in texts for _ in calls(text)) > 200
    assert list(mistakes("topik list")) == ["no command topik"]
    assert list(mistakes("topic list --al")) == ["no option --al"]
    assert any("--state" in one for one in mistakes("transaction list --state open"))
    assert not list(mistakes("topic list --all"))
    assert list(calls("a `barnabas topic list` b\n```sh\nx | barnabas consume t\n```\n")) == [
        "consume t",
        "topic list",
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_commands_of_a_page_exist(page: Path) -> None:
    """Who types in what a page says gets no error of usage."""
    found = [
        f"barnabas {call}: {mistake}"
        for call in calls(page.read_text(encoding="utf-8"))
        for mistake in mistakes(call)
    ]
    assert not found

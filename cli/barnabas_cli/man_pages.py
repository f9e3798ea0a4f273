"""Writes the manual pages of all commands into `cli/man/man1`, from what `--help` prints.

Run as `python -m barnabas_cli.man_pages [FOLDER]`. Not imported by the command. A test compares the
files with what this makes, so that the two cannot drift apart; wheels put them into `share/man`.

Pages are made ahead and kept, because a wheel is built by tools that cannot import the command.
They have no date and no version: a release changes none of them. click-man, which makes such pages
as well, would be one more package to lock for a hundred lines.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from barnabas_cli.main import main

DEFAULT_PATH: Final = "cli/man/man1"


def pages() -> dict[str, str]:
    """File names and texts of all pages, of groups too."""
    return {f"{'-'.join(names)}.1": _page(command, names) for names, command in _commands(main, ())}


def _commands(
    command: click.Command, above: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    names = (*above, command.name or "barnabas") if above else ("barnabas",)
    yield names, command
    for _, child in _children(command):
        yield from _commands(child, names)


def _children(command: click.Command) -> list[tuple[str, click.Command]]:
    """The commands of a group that its help lists."""
    if not isinstance(command, click.Group):
        return []
    context = click.Context(command)
    found = ((name, command.get_command(context, name)) for name in command.list_commands(context))
    return [(name, child) for name, child in found if child is not None and not child.hidden]


def _page(command: click.Command, names: tuple[str, ...]) -> str:
    context = _context(names)
    title = " ".join(names)
    summary, _, rest = _paragraphs(command).partition("\n\n")
    lines = [
        f'.TH "{"-".join(names).upper()}" 1 "" "Barnabas" "Barnabas"',
        ".ad l",
        ".SH NAME",
        f"{_roff('-'.join(names))} \\- {_roff(summary.removeprefix('Barnabas: ').rstrip('.'))}",
        ".SH SYNOPSIS",
        f"\\fB{_roff(title)}\\fP {_roff(' '.join(command.collect_usage_pieces(context)))}",
    ]
    if rest or not isinstance(command, click.Group):
        lines += [".SH DESCRIPTION", *_text(rest or summary)]
    records = [
        record
        for param in command.get_params(context)
        if isinstance(param, click.Option) and (record := param.get_help_record(context))
    ]
    if records:
        lines.append(".SH OPTIONS")
        for option, text in records:
            lines += [".TP", f"\\fB{_roff(option)}\\fP", *_text(text)]
    children = _children(command)
    if children:
        lines.append(".SH COMMANDS")
        for name, child in children:
            called = _roff(f"{title} {name}")
            lines += [".TP", f"\\fB{called}\\fP", *_text(child.get_short_help_str(200))]
    lines += [".SH EXIT STATUS", *_text((main.epilog or "").removeprefix("Exit codes: "))]
    others = [f"{'-'.join((*names, name))}(1)" for name, _ in children]
    if len(names) > 1:
        others.insert(0, f"{'-'.join(names[:-1])}(1)")
    lines += [".SH SEE ALSO", _roff(", ".join(others))]
    return "\n".join(lines) + "\n"


def _context(names: tuple[str, ...]) -> click.Context:
    """The context in which the command is called, with the settings of those above it."""
    command: click.Command = main
    context = click.Context(main, info_name="barnabas", **main.context_settings)
    for name in names[1:]:
        assert isinstance(command, click.Group)
        child = command.get_command(context, name)
        assert child is not None
        command = child
        context = click.Context(command, info_name=name, parent=context, **command.context_settings)
    return context


def _paragraphs(command: click.Command) -> str:
    """The text of the help, its paragraphs on one line each."""
    text = (command.help or command.get_short_help_str(200)).replace("\b\n", "").strip()
    return "\n\n".join(" ".join(part.split()) for part in re.split(r"\n\s*\n", text))


def _text(text: str) -> list[str]:
    """Paragraphs as roff has them."""
    lines: list[str] = []
    for paragraph in text.split("\n\n"):
        lines += [".PP"] if lines else []
        lines.append(_roff(" ".join(paragraph.split())))
    return lines


def _roff(text: str) -> str:
    """Text without a meaning to roff."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


def write(folder: Path) -> None:
    """Write all pages; a page of a command that is gone goes."""
    folder.mkdir(parents=True, exist_ok=True)
    made = pages()
    for path in folder.glob("*.1"):
        if path.name not in made:
            path.unlink()
    for name, text in made.items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else DEFAULT_PATH))

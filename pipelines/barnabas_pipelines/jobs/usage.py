"""What a job tells about its options: the help, a YAML file to start from, rows for the docs. Pure.

Not here: the page of the documentation that has all jobs (`reference.py`).
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

import yaml

from barnabas_pipelines.jobs.settings import JobOption

_WIDTH: Final = 100
_INDENT: Final = " " * 6
_FLAGS: Final = (
    ("--config FILE", "A YAML file with any of these options, without the dashes in front."),
    ("--dry-run", "Print what would be done, with what the cluster says now, and end."),
    ("--traceback", "When it fails, print where, too."),
    ("--help", "Print this and end."),
)
_PLACEHOLDERS: Final = {
    "text": "TEXT",
    "int": "NUMBER",
    "number": "NUMBER",
    "duration": "DURATION",
    "bytes": "SIZE",
    "names": "NAME,...",
    "pairs": "NAME=VALUE",
    "document": "YAML",
}


def help_text(name: str, summary: str, options: Sequence[JobOption]) -> str:
    """What `--help` prints."""
    return "\n".join(_help_lines(name, summary, options))


def _help_lines(name: str, summary: str, options: Sequence[JobOption]) -> Iterator[str]:
    yield f"usage: python -m barnabas_pipelines.jobs.{name} [--dry-run] [--OPTION VALUE ...]"
    yield ""
    yield from textwrap.wrap(summary, _WIDTH)
    yield ""
    for option in sorted(options, key=lambda one: not one.is_required):
        yield f"  {spelling(option)}"
        facts = [option.meaning, *_facts(option)]
        yield from textwrap.wrap(
            " ".join(facts), _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT
        )
    yield ""
    for flag, meaning in _FLAGS:
        yield f"  {flag:<20}{meaning}"
    yield f"  {'options':<20}Print a YAML file with all options, to start from, and end."


def spelling(option: JobOption) -> str:
    """The option as it is written on a command line."""
    if option.kind == "bool":
        return f"--{option.name}, --no-{option.name}"
    return f"--{option.name} {'|'.join(option.choices) or _PLACEHOLDERS[option.kind]}"


def _facts(option: JobOption) -> Iterator[str]:
    if option.is_required:
        yield "(required)"
    elif option.default is not None:
        yield f"(default: {default_text(option)})"


def default_text(option: JobOption) -> str:
    """The default as it would be written."""
    value = option.default
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return "" if value is None else str(value)


def range_text(option: JobOption) -> str:
    """The values that are possible, where not all of the kind are."""
    if option.choices:
        return ", ".join(option.choices)
    least, most = option.minimum, option.maximum
    if least is not None and most is not None:
        return f"{least:g} to {most:g}"
    if least is not None:
        return f"at least {least:g}"
    return f"at most {most:g}" if most is not None else ""


def yaml_template(name: str, summary: str, options: Sequence[JobOption]) -> str:
    """A file for `--config`: each option with its meaning; what need not be given is a comment."""
    lines = [f"# {line}" for line in textwrap.wrap(f"{name}: {summary}", _WIDTH - 2)]
    for option in options:
        lines.append("")
        lines += [f"# {line}" for line in textwrap.wrap(option.meaning, _WIDTH - 2)]
        possible = range_text(option)
        if possible:
            lines.append(f"# Possible: {possible}.")
        written = _yaml_value(option)
        lines.append(
            f"{option.name}: {written}" if option.is_required else f"#{option.name}: {written}"
        )
    return "\n".join(lines)


def _yaml_value(option: JobOption) -> str:
    if option.default is None:
        return {"pairs": "{}", "document": "{}"}.get(
            option.kind, _PLACEHOLDERS.get(option.kind, "")
        )
    value = list(option.default) if isinstance(option.default, tuple) else option.default
    written: str = yaml.safe_dump(value, default_flow_style=True, width=1000)
    return written.removesuffix("\n").removesuffix("\n...").strip()

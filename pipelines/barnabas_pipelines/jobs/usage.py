"""The command line of a job, and texts about its options: the help, a YAML file, rows for the docs.

Not here: the page of the documentation that has all jobs (`reference.py`).
"""

from __future__ import annotations

import textwrap
from collections import ChainMap
from collections.abc import Iterator, Sequence
from typing import Any, Final

import click
import yaml

from barnabas_pipelines.errors import OptionsError
from barnabas_pipelines.jobs.settings import JobOption
from barnabas_protocol.settings.kinds import BOOLEAN, PAIRS
from barnabas_protocol.settings.reference import default_text

_WIDTH: Final = 100
_CONFIG: Final = "A YAML file with any of these options, without the dashes in front."
FLAGS: Final = {
    "dry-run": "Print what would be done, with what the cluster says now, and end.",
    "traceback": "When it fails, print where, too.",
}
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


class CommandLine:
    """The options of a job on a command line, by click: it parses them and prints the help."""

    def __init__(self, name: str, summary: str, options: Sequence[JobOption]) -> None:
        self._options = options
        params: list[click.Parameter] = [
            parameter
            for option in sorted(options, key=lambda one: not one.is_required)
            for parameter in _parameters(option)
        ]
        params += [
            click.Option([f"--{flag}"], help=text, is_flag=True) for flag, text in FLAGS.items()
        ]
        params.append(click.Option(["--config"], help=_CONFIG, metavar="FILE", multiple=True))
        self._command = click.Command(
            f"python -m barnabas_pipelines.jobs.{name}",
            params=params,
            help=summary,
            epilog="With the one argument 'options': print a YAML file to start from, and end.",
            context_settings={
                "help_option_names": ["-h", "--help"],
                "max_content_width": _WIDTH,
                "token_normalize_func": lambda word: word.replace("_", "-"),
            },
        )

    def parse(self, arguments: Sequence[str]) -> dict[str, Any]:
        """What is given, by the names of options and flags; `config` has names of files.

        Raises: OptionsError; click's Exit when the help was wanted, which is printed then.
        """
        try:
            found = self._command.make_context(self._command.name, list(arguments)).params
        except click.UsageError as error:
            raise OptionsError(error.format_message()) from None
        given: dict[str, Any] = {"config": found["config"]}
        given |= {flag: found[_variable(flag)] for flag in FLAGS}
        for option in self._options:
            values = found[_variable(option.name)]
            if option.kind is BOOLEAN and found[_variable(f"no-{option.name}")]:
                values = (*values, "false")
            if option.kind is PAIRS:
                pairs = [option.accept(text) for text in values]
                given |= {option.name: dict(ChainMap(*reversed(pairs)))} if pairs else {}
            elif len(values) > 1:
                raise OptionsError(f"--{option.name} is given twice")
            elif values:
                (given[option.name],) = values
        return given


def _parameters(option: JobOption) -> Iterator[click.Option]:
    text = " ".join([option.why, *_facts(option)])
    name = f"--{option.name}"
    if option.kind is not BOOLEAN:
        metavar = "|".join(option.choices) or _PLACEHOLDERS[option.kind.name]
        yield click.Option([name], help=text, metavar=metavar, multiple=True)
        return
    # A value may follow, as in a file, and need not.
    yield click.Option(
        [name],
        help=text,
        multiple=True,
        is_flag=False,
        flag_value="true",
        metavar="[true|false]",
    )
    yield click.Option([f"--no-{option.name}"], help=f"The same as {name} false.", is_flag=True)


def _variable(name: str) -> str:
    """What click calls a parameter."""
    return name.replace("-", "_")


def _facts(option: JobOption) -> Iterator[str]:
    if option.is_required:
        yield "(required)"
    elif option.default is not None:
        yield f"(default: {default_text(option.default)})"


def yaml_template(name: str, summary: str, options: Sequence[JobOption]) -> str:
    """A file for `--config`: each option with its meaning; what need not be given is a comment."""
    lines = [f"# {line}" for line in textwrap.wrap(f"{name}: {summary}", _WIDTH - 2)]
    for option in options:
        lines.append("")
        lines += [f"# {line}" for line in textwrap.wrap(option.why, _WIDTH - 2)]
        possible = option.range_text
        if possible:
            lines.append(f"# Possible: {possible}.")
        written = _yaml_value(option)
        lines.append(
            f"{option.name}: {written}" if option.is_required else f"#{option.name}: {written}"
        )
    return "\n".join(lines)


def _yaml_value(option: JobOption) -> str:
    if option.default is None:
        return {**_PLACEHOLDERS, "bool": "", "pairs": "{}", "document": "{}"}[option.kind.name]
    value = list(option.default) if isinstance(option.default, tuple) else option.default
    written: str = yaml.safe_dump(value, default_flow_style=True, width=1000)
    return written.removesuffix("\n").removesuffix("\n...").strip()

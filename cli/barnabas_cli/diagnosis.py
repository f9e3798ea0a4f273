"""How `group describe` and `share describe` show a diagnosis, and their option --watch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from barnabas_cli.output import printable

_COLOURS = {"critical": "red", "warning": "yellow", "working": "blue", "fine": "green"}


def write_diagnosis(noun: str, group: Mapping[str, Any]) -> None:
    """A line for what is so, and then what to do about it and the command for that.

    Not the command that was just given; `noun` is its word for groups of this kind.
    """
    from barnabas_client.facts.command_lines import command_line

    given = command_line(f"{noun} describe", group["group"])
    for finding in group["diagnosis"]:
        state = click.style(finding["state"], fg=_COLOURS.get(finding["state"]))
        click.echo(f"  {state}: {printable(finding['evidence'])}")
        if finding["state"] == "fine" or not finding["next"]:
            continue
        click.echo(f"    {printable(finding['next'])}")
        if finding["command"] != given:
            click.echo(f"    {printable(finding['command'])}")


def behind_text(seconds: float | None) -> str:
    """A lag in time; nothing where there is none."""
    from barnabas_protocol.settings.durations import duration_text

    return "-" if not seconds else duration_text(round(seconds * 1000))


def with_watch(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the option --watch, and the argument `watch_ms`."""

    return click.option(
        "--watch",
        "watch_ms",
        metavar="DURATION",
        default="0s",
        callback=_duration_ms,
        help="Look for so long, such as 30s: how groups move tells more than one look.",
    )(function)


def _duration_ms(context: click.Context, parameter: click.Parameter, value: str) -> int:
    from barnabas_protocol.settings.durations import parse_duration_ms

    try:
        return parse_duration_ms(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None

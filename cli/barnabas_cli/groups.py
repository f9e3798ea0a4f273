"""Command groups that know the nearest name, and the root that turns every failure into one line.

Not here: which commands there are (`main.py`), what failures say (`failures.py`).
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import click

from barnabas_cli.failures import INTERRUPTED, OUTPUT_CLOSED, describe
from barnabas_protocol.settings.suggestions import hint


@dataclass(slots=True)
class Invocation:
    """What the root's options and those of the command itself set for the whole run."""

    is_debugging: bool = False
    bootstrap_servers: str | None = None
    command_config: str | None = None
    profile: str | None = None
    color: bool | None = None
    """As click's context has it; an error is told after the context's end."""


class NearestGroup(click.Group):
    """A group that names the nearest command where there is none of that name."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command. Raises: click.UsageError with the nearest name."""
        names = self.list_commands(ctx)
        if args and args[0] not in names and not args[0].startswith("-"):
            raise click.UsageError(f"No such command '{args[0]}'.{hint(args[0], names)}", ctx)
        return super().resolve_command(ctx, args)


class LazyGroup(NearestGroup):
    """A group whose commands are imported when they are called or asked for help.

    `lazy_commands` gives for each name the module, whose `command` it is, and a line of help.
    """

    def __init__(self, *, lazy_commands: Mapping[str, tuple[str, str]], **attributes: Any) -> None:
        super().__init__(**attributes)
        self.lazy_commands = lazy_commands

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands."""
        return sorted(self.lazy_commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in self.lazy_commands:
            return None
        module, _, name = self.lazy_commands[cmd_name][0].partition(":")
        command: Any = getattr(importlib.import_module(module), name or "command")
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, text) for name, (_, text) in sorted(self.lazy_commands.items())]
            )


class RootGroup(LazyGroup):
    """The `barnabas` command itself: failures become one line and an exit code."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command line; always ends with SystemExit."""
        invocation = Invocation(
            is_debugging=os.environ.get("BARNABAS_DEBUG", "") not in ("", "0"),
            color=False if os.environ.get("NO_COLOR") else None,
        )
        try:
            code = super().main(
                args,
                "barnabas",
                complete_var,
                standalone_mode=False,
                obj=invocation,
                **extra,
            )
            sys.stdout.flush()
        except BrokenPipeError:
            _drop_output()
        except Exception as error:
            _fail(error, invocation)
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the chosen command; the end of the reader or of the user's patience is no error."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)
        except BrokenPipeError:
            _drop_output()


def _fail(error: Exception, invocation: Invocation) -> NoReturn:
    if isinstance(error, click.Abort):
        sys.exit(INTERRUPTED)
    if invocation.is_debugging:
        import traceback

        traceback.print_exception(error)
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)
        sys.exit(error.exit_code)
    message, code = describe(error)
    word = click.style("Error:", fg="red", bold=True)
    click.echo(f"{word} {message}", err=True, color=invocation.color)
    sys.exit(code)


def _drop_output() -> NoReturn:
    """End without a word: what is still in the buffers must not be written at the exit either."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(OUTPUT_CLOSED)

"""The `barnabas` command.

One module per noun, imported when it is used, so that the others cost nothing.
"""

import importlib
from typing import Any

import click

COMMANDS = {
    "broker": ("barnabas_cli.broker", "Run one broker with a properties file."),
    "dev": ("barnabas_cli.dev", "Run a broker on this machine, with nothing to configure."),
    "log": ("barnabas_cli.log", "Look after partition directories."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called or asked for help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        command: Any = importlib.import_module(COMMANDS[cmd_name][0]).command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the nearest command where there is none of that name."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean '{near[0]}'?" if near else f" There are: {', '.join(COMMANDS)}."
            raise click.UsageError(f"No such command '{args[0]}'.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in sorted(COMMANDS.items())])


@click.group(cls=LazyGroup)
@click.version_option(package_name="barnabas")
def main() -> None:
    """Barnabas: a message broker that speaks Apache Kafka's protocol."""


if __name__ == "__main__":
    main()

"""Completion in the shell: commands and options, and names of what the cluster has.

Invariants: completing waits a second for a cluster at most and never prints an error;
where it cannot know, it proposes nothing.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from barnabas_client.admin.admin import Admin

SHELLS = ("bash", "zsh", "fish")
COMPLETE_VARIABLE = "_BARNABAS_COMPLETE"
# Somebody is waiting with a hand on the keyboard; a slow cluster may be given longer.
WAIT_VARIABLE = "BARNABAS_COMPLETION_SECONDS"
_WAIT_SECONDS = "1"
_HOW_TO = {
    "bash": '# Add to ~/.bashrc:  eval "$(barnabas completion bash)"',
    "zsh": '# Add to ~/.zshrc:  eval "$(barnabas completion zsh)"',
    "fish": "# Save as ~/.config/fish/completions/barnabas.fish",
}


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print a script that makes the shell complete commands, options, topics and groups.

    Use it with: eval "$(barnabas completion bash)"
    """
    from click.shell_completion import get_completion_class

    complete = get_completion_class(shell)
    assert complete is not None
    root = context.find_root().command
    click.echo(_HOW_TO[shell])
    click.echo(complete(root, {}, "barnabas", COMPLETE_VARIABLE).source())


def complete_topics(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Names of topics that begin like this."""

    async def names(admin: Admin) -> Iterable[str]:
        return [listing.name for listing in await admin.topics.list()]

    return _names(context, incomplete, names)


def complete_groups(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Ids of groups that begin like this."""

    async def names(admin: Admin) -> Iterable[str]:
        return [listing.group_id for listing in await admin.groups.list()]

    return _names(context, incomplete, names)


def complete_users(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Names of users who log in with SCRAM that begin like this."""

    async def names(admin: Admin) -> Iterable[str]:
        return list((await admin.scram.describe()).unwrap())

    return _names(context, incomplete, names)


def complete_principals(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Principals that have rights, and names that begin like this."""

    async def names(admin: Admin) -> Iterable[str]:
        return {binding.principal for binding in await admin.acls.list()}

    return _names(context, incomplete, names)


def complete_share_groups(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Ids of share groups that begin like this."""

    async def names(admin: Admin) -> Iterable[str]:
        from barnabas_client.admin.values.groups import GroupType

        return [listing.group_id for listing in await admin.groups.list(types=[GroupType.SHARE])]

    return _names(context, incomplete, names)


def complete_transactional_ids(
    context: click.Context, _: click.Parameter, incomplete: str
) -> list[str]:
    """Transactional ids that begin like this."""

    async def names(admin: Admin) -> Iterable[str]:
        return [listing.transactional_id for listing in await admin.transactions.list()]

    return _names(context, incomplete, names)


def complete_config_names(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Names of what has settings of the kind that was given before."""
    match context.params.get("kind"):
        case "topic":
            return complete_topics(context, parameter, incomplete)
        case "group":
            return complete_groups(context, parameter, incomplete)
        case "client-metrics":
            return _names(context, incomplete, _subscription_names)
        case _:
            return []


async def _subscription_names(admin: Admin) -> Iterable[str]:
    from barnabas_client.admin.values.configs import ResourceType

    listed = await admin.configs.list_resources([ResourceType.CLIENT_METRICS])
    return [resource.name for resource in listed]


def _names(context: click.Context, incomplete: str, ask: object) -> list[str]:
    from barnabas_cli.connection import connect

    wait_seconds = float(os.environ.get(WAIT_VARIABLE, _WAIT_SECONDS))

    async def answer() -> Iterable[str]:
        connection = connect(
            context.params.get("bootstrap_servers"),
            context.params.get("command_config"),
            round(wait_seconds * 1000),
            profile=context.params.get("profile"),
        )
        async with asyncio.timeout(wait_seconds), connection.admin() as admin:
            names: Iterable[str] = await ask(admin)  # type: ignore[operator]
            return names

    try:
        names = asyncio.run(answer())
    except Exception:
        # Whatever is wrong, a message in the middle of the line being typed would not help.
        return []
    return sorted(name for name in names if name.startswith(incomplete))

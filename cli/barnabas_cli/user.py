"""`barnabas user`: SCRAM credentials; list, set, delete. Needs a cluster that serves them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from barnabas_cli.connection import Connection, with_connection
from barnabas_cli.groups import NearestGroup
from barnabas_cli.lookups import confirm, with_confirmation
from barnabas_cli.output import Column, Output, with_output

if TYPE_CHECKING:
    from barnabas_client.admin.admin import Admin

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
ITERATIONS_DEFAULT = 8192
_COLUMNS = (
    Column(title="USER", field="user"),
    Column(title="MECHANISM", field="mechanism"),
    Column(title="ITERATIONS", field="iterations", is_right=True),
)


@click.group("user", cls=NearestGroup)
def command() -> None:
    """Users' SCRAM credentials: list, set, delete."""


@command.command("list")
@with_output
@with_connection
def list_users(connection: Connection, output: Output) -> None:
    """List users with their mechanisms."""

    async def work(admin: Admin) -> list[dict[str, Any]]:
        users = (await admin.scram.describe()).unwrap()
        return [
            {
                "user": user,
                "mechanism": f"SCRAM-{credential.mechanism.name.replace('_', '-')}",
                "iterations": credential.iterations,
            }
            for user, credentials in sorted(users.items())
            for credential in credentials
        ]

    output.rows(connection.run_admin(work), _COLUMNS, empty="There are no users.")


@command.command("set")
@click.argument("user")
@click.option(
    "--mechanism", type=click.Choice(MECHANISMS), default=MECHANISMS[1], show_default=True
)
@click.option(
    "--password",
    prompt=True,
    hide_input=True,
    confirmation_prompt=True,
    envvar="BARNABAS_USER_PASSWORD",
    help="Prompted for if it is not given.  [env: BARNABAS_USER_PASSWORD]",
)
@click.option(
    "--iterations",
    type=click.IntRange(min=4096, max=16384),
    default=ITERATIONS_DEFAULT,
    show_default=True,
)
@with_connection
def set_user(
    user: str, mechanism: str, password: str, iterations: int, connection: Connection
) -> None:
    """Create a user, or give it another password."""

    async def work(admin: Admin) -> None:
        from barnabas_client.admin.values.scram import ScramMechanism, ScramUpsertion

        change = ScramUpsertion(
            user=user,
            mechanism=ScramMechanism[mechanism.removeprefix("SCRAM-").replace("-", "_")],
            password=password,
            iterations=iterations,
        )
        (await admin.scram.alter([change])).unwrap()
        click.echo(f"{user} can log in with {mechanism}")

    connection.run_admin(work)


@command.command("delete")
@click.argument("user")
@click.option(
    "--mechanism", type=click.Choice(MECHANISMS), default=MECHANISMS[1], show_default=True
)
@with_confirmation
@with_connection
def delete(user: str, mechanism: str, is_confirmed: bool, connection: Connection) -> None:
    """Delete a user's credential for one mechanism."""
    confirm(f"Delete the {mechanism} credential of {user}?", is_confirmed=is_confirmed)

    async def work(admin: Admin) -> None:
        from barnabas_client.admin.values.scram import ScramDeletion, ScramMechanism

        name = mechanism.removeprefix("SCRAM-").replace("-", "_")
        (
            await admin.scram.alter([ScramDeletion(user=user, mechanism=ScramMechanism[name])])
        ).unwrap()
        click.echo(f"{user} cannot log in with {mechanism} any more")

    connection.run_admin(work)

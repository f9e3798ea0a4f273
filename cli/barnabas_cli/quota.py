"""`barnabas quota`: what users, clients and addresses may do in a second."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from barnabas_cli.completion import complete_users
from barnabas_cli.connection import Connection, with_connection
from barnabas_cli.groups import NearestGroup
from barnabas_cli.lookups import key_values
from barnabas_cli.output import Column, Output, with_output
from barnabas_client.facts.access_facts import quota_rows

if TYPE_CHECKING:
    from barnabas_client.admin.admin import Admin
    from barnabas_client.admin.values.quotas import QuotaEntity

_COLUMNS = (
    Column(title="FOR", field="entity"),
    Column(title="QUOTA", field="quota"),
    Column(title="VALUE", field="value", is_right=True),
)

Function = TypeVar("Function", bound=Callable[..., Any])


def _with_entity(function: Function) -> Function:
    for option in (
        click.option("--default-ip", is_flag=True, help="Addresses without their own."),
        click.option("--ip", metavar="ADDRESS", help="The address, for new connections."),
        click.option("--default-client-id", is_flag=True, help="Client ids without their own."),
        click.option("--client-id", metavar="ID", help="The client id."),
        click.option("--default-user", is_flag=True, help="Users without their own."),
        click.option(
            "--user",
            metavar="NAME",
            shell_complete=complete_users,
            help="The user, without 'User:'; ANONYMOUS without a login.",
        ),
    ):
        function = option(function)
    return function


@click.group("quota", cls=NearestGroup)
def command() -> None:
    """Quotas of users, clients and addresses: list, set, delete.

    Of users and clients: producer_byte_rate and consumer_byte_rate, in bytes a second;
    request_percentage, of the time of a broker; controller_mutation_rate, in partitions made and
    removed a second. Of addresses: connection_creation_rate, in connections a second. All but
    controller_mutation_rate are for each broker. The most special one holds: of a user with a
    client id, of a user, of a client id.
    """


@command.command("list")
@click.option("--user", metavar="NAME", help="Only those of this user.")
@click.option("--client-id", metavar="ID", help="Only those of this client id.")
@with_output
@with_connection
def list_quotas(
    user: str | None, client_id: str | None, connection: Connection, output: Output
) -> None:
    """List quotas; options choose those of a user or a client id."""
    rows = connection.run_admin(lambda admin: quota_rows(admin, user=user, client_id=client_id))
    output.rows(rows, _COLUMNS, empty="There are no quotas.")


@command.command("set")
@_with_entity
@click.argument("quotas", nargs=-1, required=True, metavar="KEY=VALUE...")
@with_connection
def set_quotas(
    user: str | None,
    default_user: bool,
    client_id: str | None,
    default_client_id: bool,
    ip: str | None,
    default_ip: bool,
    quotas: tuple[str, ...],
    connection: Connection,
) -> None:
    """Set quotas; the others stay as they are."""
    pairs: dict[str, float | None] = {}
    for key, text in key_values(quotas, "quota set").items():
        try:
            pairs[key] = float(text)
        except ValueError:
            raise click.UsageError(f"{key}: '{text}' is not a number.") from None
    entity = _entity(
        user=(user, default_user), client_id=(client_id, default_client_id), ip=(ip, default_ip)
    )
    _alter(connection, entity, pairs)
    click.echo(f"{entity}: {', '.join(f'{key}={value:g}' for key, value in pairs.items())}")


@command.command("delete")
@_with_entity
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@with_connection
def delete_quotas(
    user: str | None,
    default_user: bool,
    client_id: str | None,
    default_client_id: bool,
    ip: str | None,
    default_ip: bool,
    keys: tuple[str, ...],
    connection: Connection,
) -> None:
    """Delete quotas; what is more general holds then."""
    entity = _entity(
        user=(user, default_user), client_id=(client_id, default_client_id), ip=(ip, default_ip)
    )
    _alter(connection, entity, dict.fromkeys(keys))
    click.echo(f"{entity}: no {', '.join(keys)}")


def _alter(connection: Connection, entity: QuotaEntity, changes: dict[str, float | None]) -> None:
    async def work(admin: Admin) -> None:
        (await admin.quotas.alter({entity: changes})).unwrap()

    connection.run_admin(work)


def _entity(
    *,
    user: tuple[str | None, bool],
    client_id: tuple[str | None, bool],
    ip: tuple[str | None, bool],
) -> QuotaEntity:
    """Whom the options name, each by a name or as the default. Raises: click.UsageError."""
    from barnabas_client.admin.values.quotas import QuotaEntity

    given = {"user": user, "client-id": client_id, "ip": ip}
    if any(name and is_default for name, is_default in given.values()):
        raise click.UsageError("Give a name or the default, not both.")
    parts = {kind: name for kind, (name, is_default) in given.items() if name or is_default}
    if not parts:
        raise click.UsageError(
            "Say whom it limits: --user, --client-id, --ip or a default of them."
        )
    if "ip" in parts and len(parts) > 1:
        raise click.UsageError("A quota of an address has no user and no client id.")
    return QuotaEntity.from_parts(parts)

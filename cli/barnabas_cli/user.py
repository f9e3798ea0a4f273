"""`barnabas user`: users who log in with SCRAM; create, rotate, list, describe, delete.

Passwords come from a prompt, a file or the environment (`passwords.py`); only what is derived from
them travels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from barnabas_cli.completion import complete_users
from barnabas_cli.connection import Connection, with_connection
from barnabas_cli.failures import CommandError
from barnabas_cli.groups import NearestGroup
from barnabas_cli.lookups import confirm, with_confirmation
from barnabas_cli.output import Column, Output, with_output
from barnabas_cli.passwords import with_password
from barnabas_client.facts.access_facts import acl_sentence, credential_data, user_rows
from barnabas_client.facts.command_lines import command_line
from barnabas_protocol.settings.suggestions import hint

if TYPE_CHECKING:
    from barnabas_client.admin.admin import Admin
    from barnabas_client.admin.values.scram import ScramCredential, ScramMechanism, ScramUpsertion

MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
ITERATIONS_DEFAULT: Final = 8192
_OVERLAP: Final = "barnabas.scram.previous.credential.ms"
_COLUMNS = (
    Column(title="USER", field="user"),
    Column(title="MECHANISM", field="mechanism"),
    Column(title="ITERATIONS", field="iterations", is_right=True),
)
_with_mechanism = click.option(
    "--mechanism", type=click.Choice(MECHANISMS), default=MECHANISMS[1], show_default=True
)
_with_iterations = click.option(
    "--iterations",
    type=click.IntRange(min=4096, max=16384),
    default=ITERATIONS_DEFAULT,
    show_default=True,
    help="How often the password is hashed.",
)


@click.group("user", cls=NearestGroup)
def command() -> None:
    """Users who log in with SCRAM: create, rotate, list, describe, delete."""


@command.command("list")
@with_output
@with_connection
def list_users(connection: Connection, output: Output) -> None:
    """List users with their mechanisms."""

    output.rows(connection.run_admin(user_rows), _COLUMNS, empty="There are no users.")


@command.command("describe")
@click.argument("user", shell_complete=complete_users)
@with_output
@with_connection
def describe(user: str, connection: Connection, output: Output) -> None:
    """Show a user: how it logs in, its rights and its quotas."""
    found = connection.run_admin(lambda admin: _described(admin, user))
    if not output.is_table:
        output.data(found)
        return
    click.echo(f"{user}  {', '.join(_credential_text(one) for one in found['credentials'])}")
    for title, lines in (("rights", found["acls"]), ("quotas", found["quotas"])):
        if lines is None:
            click.echo(f"  {title}: not shown by this cluster, or not to you")
        else:
            click.echo(f"  {title}: {'none' if not lines else ''}".rstrip())
            for line in lines:
                click.echo(f"    {line}")


@command.command("create")
@click.argument("user")
@_with_mechanism
@_with_iterations
@with_password
@with_connection
def create(
    user: str,
    mechanism: str,
    iterations: int,
    password: str,
    is_generated: bool,
    connection: Connection,
) -> None:
    """Create a user who may log in; rights are given with 'barnabas acl create'."""

    async def work(admin: Admin) -> None:
        if await _credential(admin, user, mechanism) is not None:
            raise CommandError(
                f"{user} can log in with {mechanism} already: change the password with"
                f" '{command_line('user rotate', user)}'"
            )
        await _store(admin, _upsertion(user, mechanism, password, iterations))

    connection.run_admin(work)
    _confirm_password(f"{user} can log in with {mechanism}", password, is_generated=is_generated)


@command.command("rotate")
@click.argument("user", shell_complete=complete_users)
@_with_mechanism
@with_password
@with_connection
def rotate(
    user: str, mechanism: str, password: str, is_generated: bool, connection: Connection
) -> None:
    """Give a user another password; where brokers allow it, the former one stays valid a while.

    For how long: the brokers' setting barnabas.scram.previous.credential.ms. The salt and the
    iterations stay as they are for that.
    """

    async def work() -> str:
        from barnabas_cli.scram_salt import salt_of

        async with connection.admin() as admin:
            if await _credential(admin, user, mechanism) is None:
                raise CommandError(
                    f"{user} has no {mechanism} password:"
                    f" '{command_line('user create', user)}' makes one"
                )
            known = await salt_of(connection, mechanism, user)
            change = _upsertion(
                user,
                mechanism,
                password,
                ITERATIONS_DEFAULT if known is None else known.iterations,
                None if known is None else known.salt,
            )
            await _store(admin, change)
            return _former(0 if known is None else await _overlap_ms(admin))

    former = connection.run(work)
    _confirm_password(
        f"{user} has another {mechanism} password; {former}", password, is_generated=is_generated
    )


@command.command("set")
@click.argument("user", shell_complete=complete_users)
@_with_mechanism
@_with_iterations
@with_password
@with_connection
def set_user(
    user: str,
    mechanism: str,
    iterations: int,
    password: str,
    is_generated: bool,
    connection: Connection,
) -> None:
    """Create a user, or replace the password at once."""

    async def work(admin: Admin) -> None:
        await _store(admin, _upsertion(user, mechanism, password, iterations))

    connection.run_admin(work)
    _confirm_password(f"{user} can log in with {mechanism}", password, is_generated=is_generated)


@command.command("delete")
@click.argument("user", shell_complete=complete_users)
@_with_mechanism
@with_confirmation
@with_connection
def delete(user: str, mechanism: str, is_confirmed: bool, connection: Connection) -> None:
    """Delete a user's credential for one mechanism; rights and quotas stay."""
    confirm(f"Delete the {mechanism} credential of {user}?", is_confirmed=is_confirmed)

    async def work(admin: Admin) -> None:
        from barnabas_client.admin.values.scram import ScramDeletion

        change = ScramDeletion(user=user, mechanism=_mechanism(mechanism))
        (await admin.scram.alter([change])).unwrap()
        click.echo(f"{user} cannot log in with {mechanism} any more")

    connection.run_admin(work)


def _mechanism(name: str) -> ScramMechanism:
    from barnabas_client.admin.values.scram import ScramMechanism

    return ScramMechanism[name.removeprefix("SCRAM-").replace("-", "_")]


def _credential_text(data: dict[str, Any]) -> str:
    return f"{data['mechanism']} ({data['iterations']} iterations)"


def _upsertion(
    user: str, mechanism: str, password: str, iterations: int, salt: bytes | None = None
) -> ScramUpsertion:
    from barnabas_client.admin.values.scram import ScramUpsertion

    return ScramUpsertion(
        user=user,
        mechanism=_mechanism(mechanism),
        password=password,
        iterations=iterations,
        salt=salt,
    )


async def _store(admin: Admin, change: ScramUpsertion) -> None:
    (await admin.scram.alter([change])).unwrap()


async def _credential(admin: Admin, user: str, mechanism: str) -> ScramCredential | None:
    from barnabas_client.errors import NotFoundError

    outcomes = await admin.scram.describe([user])
    if isinstance(outcomes.errors.get(user), NotFoundError):
        return None
    wanted = _mechanism(mechanism)
    return next((one for one in outcomes.unwrap()[user] if one.mechanism is wanted), None)


async def _overlap_ms(admin: Admin) -> int | None:
    """How long a former password stays valid; None where the brokers do not tell."""
    from barnabas_client.admin.values.configs import ConfigResource
    from barnabas_client.errors import BarnabasError

    try:
        node_id = (await admin.cluster.describe()).brokers[0].node_id
        resource = ConfigResource.broker(node_id)
        entry = (await admin.configs.describe([resource])).unwrap()[resource].get(_OVERLAP)
        return None if entry is None or entry.value is None else int(entry.value)
    except (BarnabasError, ValueError, IndexError):
        return None


def _former(overlap_ms: int | None) -> str:
    if overlap_ms is None:
        return "the brokers do not tell how long the former one stays valid"
    if overlap_ms:
        return f"the former one stays valid for {overlap_ms // 1000} s"
    return "the former one is not valid any more"


def _confirm_password(sentence: str, password: str, *, is_generated: bool) -> None:
    """Confirm on the error stream where the password is the output, so that it can be piped."""
    click.echo(sentence, err=is_generated)
    if is_generated:
        click.echo(password)


async def _described(admin: Admin, user: str) -> dict[str, Any]:
    from barnabas_client.admin.values.acls import AclFilter
    from barnabas_client.errors import AuthorizationError, NotFoundError, UnsupportedError

    outcomes = await admin.scram.describe([user])
    if isinstance(outcomes.errors.get(user), NotFoundError):
        known: Sequence[str] = list((await admin.scram.describe()).unwrap())
        raise CommandError(f"No such user '{user}'.{hint(user, known)}")
    acls: list[str] | None
    quotas: list[str] | None
    try:
        found = await admin.acls.list(AclFilter(principal=f"User:{user}"))
        acls = [acl_sentence(one) for one in found]
    except (AuthorizationError, UnsupportedError):
        acls = None
    try:
        quotas = [
            f"{key}={value:g} ({entity})"
            for entity, values in (await admin.quotas.list()).items()
            if dict(entity.components).get("user") == user
            for key, value in sorted(values.items())
        ]
    except (AuthorizationError, UnsupportedError):
        quotas = None
    credentials = [credential_data(one) for one in outcomes.unwrap()[user]]
    return {"user": user, "credentials": credentials, "acls": acls, "quotas": quotas}

"""`barnabas acl`: who may do what; list, explain, create, delete.

Needs a cluster with an authorizer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from barnabas_cli.completion import complete_principals
from barnabas_cli.connection import Connection, with_connection
from barnabas_cli.groups import NearestGroup
from barnabas_cli.lookups import confirm, with_confirmation
from barnabas_cli.output import Column, Output, with_output
from barnabas_client.facts.access_facts import acl_data, acl_sentence, member_of

if TYPE_CHECKING:
    from barnabas_cli.acl_decision import AuthorizerSettings
    from barnabas_client.admin.admin import Admin
    from barnabas_client.admin.values.acls import AclBinding

RESOURCES = ("topic", "group", "cluster", "transactional-id", "delegation-token", "user")
CLUSTER_NAME = "kafka-cluster"
OPERATIONS = [
    "all",
    "read",
    "write",
    "create",
    "delete",
    "alter",
    "describe",
    "cluster-action",
    "describe-configs",
    "alter-configs",
    "idempotent-write",
    "create-tokens",
    "describe-tokens",
    "two-phase-commit",
]
_COLUMNS = (
    Column(title="PRINCIPAL", field="principal"),
    Column(
        title="PERMISSION",
        field="permission",
        style=lambda permission: "red" if permission == "deny" else "green",
    ),
    Column(title="OPERATION", field="operation"),
    Column(title="RESOURCE", field="resource_type"),
    Column(title="NAME", field="resource_name"),
    Column(title="PATTERN", field="pattern"),
    Column(title="HOST", field="host"),
)


@click.group("acl", cls=NearestGroup)
def command() -> None:
    """ACLs: list, explain, create, delete."""


@command.command("list")
@click.option("--resource", type=click.Choice(RESOURCES))
@click.option("--name", help="The resource's name.")
@click.option("--principal", shell_complete=complete_principals, help="For example User:alice.")
@click.option(
    "--matching", is_flag=True, help="Also those of prefixes of the name, and of all names."
)
@with_output
@with_connection
def list_acls(
    resource: str | None,
    name: str | None,
    principal: str | None,
    matching: bool,
    connection: Connection,
    output: Output,
) -> None:
    """List ACLs; options filter them."""
    if matching and name is None:
        raise click.UsageError("--matching needs the --name that the ACLs are to be for.")

    async def work(admin: Admin) -> list[dict[str, Any]]:
        found = await admin.acls.list(_filter(resource, name, principal, is_matching=matching))
        return [acl_data(binding) for binding in found]

    output.rows(connection.run_admin(work), _COLUMNS, empty="There are none.")


@command.command("explain")
@click.argument("principal", shell_complete=complete_principals)
@click.argument("operation", type=click.Choice(OPERATIONS[1:]))
@click.option("--resource", type=click.Choice(RESOURCES), required=True)
@click.option("--name", help="The resource's name; not needed for cluster.")
@click.option(
    "--host", metavar="ADDRESS", help="The client's address.  [default: only rules for all count]"
)
@with_output
@with_connection
def explain(
    principal: str,
    operation: str,
    resource: str,
    name: str | None,
    host: str | None,
    connection: Connection,
    output: Output,
) -> None:
    """Say whether PRINCIPAL (User:alice) may do OPERATION, and which rule decides."""
    from barnabas_cli.acl_decision import Question, decide

    if name is None and resource != "cluster":
        raise click.UsageError("Name the resource with --name.")

    async def work(admin: Admin) -> dict[str, Any]:
        from barnabas_protocol.acl import AclOperation

        question = Question(
            principal=principal if ":" in principal else f"User:{principal}",
            operation=member_of(AclOperation, operation),
            host=host,
        )
        wanted = _filter(resource, name or CLUSTER_NAME, None, is_matching=True)
        acls = await admin.acls.list(wanted)
        decision = decide(question, acls, await _authorizer_settings(admin))
        return {
            "allowed": decision.is_allowed,
            "reason": decision.reason,
            "rule": None if decision.rule is None else acl_data(decision.rule),
            "uncertain": decision.uncertain,
        }

    found = connection.run_admin(work)
    if not output.is_table:
        output.data(found)
        return
    word = {True: "allowed", False: "denied", None: "unknown"}[found["allowed"]]
    click.echo(f"{word}: {found['reason']}")
    for line in found["uncertain"]:
        click.echo(f"  but {line}")


async def _authorizer_settings(admin: Admin) -> AuthorizerSettings:
    """What the brokers' settings say, as far as they are shown."""
    from barnabas_cli.acl_decision import ALLOW_EVERYONE, SUPER_USERS, AuthorizerSettings
    from barnabas_client.admin.values.configs import ConfigResource
    from barnabas_client.errors import BarnabasError

    try:
        resource = ConfigResource.broker((await admin.cluster.describe()).brokers[0].node_id)
        entries = (await admin.configs.describe([resource])).unwrap()[resource]
    except (BarnabasError, IndexError):
        return AuthorizerSettings()
    texts = {
        name: entries[name].value if name in entries else None
        for name in (SUPER_USERS, ALLOW_EVERYONE)
    }
    return AuthorizerSettings.of(texts[SUPER_USERS], texts[ALLOW_EVERYONE])


@command.command("create")
@click.argument("principal", shell_complete=complete_principals)
@click.argument("operations", nargs=-1, required=True, type=click.Choice(OPERATIONS))
@click.option("--resource", type=click.Choice(RESOURCES), required=True)
@click.option("--name", help="The resource's name, '*' for all; not needed for cluster.")
@click.option("--prefixed", is_flag=True, help="All resources whose name has this prefix.")
@click.option("--deny", is_flag=True, help="Forbid it.")
@click.option("--host", default="*", show_default=True, help="Client address that the ACL is for.")
@with_connection
def create(
    principal: str,
    operations: tuple[str, ...],
    resource: str,
    name: str | None,
    prefixed: bool,
    deny: bool,
    host: str,
    connection: Connection,
) -> None:
    """Allow PRINCIPAL (User:alice) OPERATIONS on a resource."""
    if name is None and resource != "cluster":
        raise click.UsageError("Name the resource with --name; '*' means all.")

    async def work(admin: Admin) -> None:
        from barnabas_client.admin.values.acls import AclBinding
        from barnabas_protocol.acl import AclOperation, AclPermission, AclResourceType, PatternType

        bindings = [
            AclBinding(
                resource_type=member_of(AclResourceType, resource),
                resource_name=name or CLUSTER_NAME,
                pattern_type=PatternType.PREFIXED if prefixed else PatternType.LITERAL,
                principal=principal if ":" in principal else f"User:{principal}",
                host=host,
                operation=member_of(AclOperation, operation),
                permission=AclPermission.DENY if deny else AclPermission.ALLOW,
            )
            for operation in operations
        ]
        (await admin.acls.create(bindings)).unwrap()
        for binding in bindings:
            click.echo(acl_sentence(binding))

    connection.run_admin(work)


@command.command("delete")
@click.option("--resource", type=click.Choice(RESOURCES))
@click.option("--name", help="The resource's name.")
@click.option("--principal", shell_complete=complete_principals, help="For example User:alice.")
@with_confirmation
@with_connection
def delete(
    resource: str | None,
    name: str | None,
    principal: str | None,
    is_confirmed: bool,
    connection: Connection,
) -> None:
    """Delete the ACLs that 'acl list' shows with the same options."""
    if resource is None and name is None and principal is None:
        raise click.UsageError("Select ACLs with --resource, --name or --principal.")

    async def find(admin: Admin) -> list[AclBinding]:
        return list(await _find(admin, resource, name, principal))

    async def work(admin: Admin) -> None:
        (await admin.acls.delete([_filter(resource, name, principal)])).unwrap()

    found = connection.run_admin(find)
    for binding in found:
        click.echo(acl_sentence(binding))
    if not found:
        click.echo("nothing to delete")
        return
    confirm(f"Delete these {len(found)} rights?", is_confirmed=is_confirmed)
    connection.run_admin(work)
    click.echo(f"deleted {len(found)} rights")


async def _find(
    admin: Admin, resource: str | None, name: str | None, principal: str | None
) -> tuple[AclBinding, ...]:
    return tuple(await admin.acls.list(_filter(resource, name, principal)))


def _filter(
    resource: str | None, name: str | None, principal: str | None, *, is_matching: bool = False
) -> Any:
    from barnabas_client.admin.values.acls import AclFilter
    from barnabas_protocol.acl import AclResourceType, PatternType

    kind = AclResourceType.ANY if resource is None else member_of(AclResourceType, resource)
    if principal is not None and ":" not in principal:
        principal = f"User:{principal}"
    pattern = PatternType.MATCH if is_matching else PatternType.ANY
    return AclFilter(
        resource_type=kind, resource_name=name, pattern_type=pattern, principal=principal
    )

"""`barnabas acl`: who may do what; list, create, delete. Needs a cluster with an authorizer."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, TypeVar

import click

from barnabas_cli.connection import Connection, with_connection
from barnabas_cli.groups import NearestGroup
from barnabas_cli.lookups import confirm, with_confirmation
from barnabas_cli.output import Column, Output, with_output

if TYPE_CHECKING:
    from barnabas_client.admin.admin import Admin
    from barnabas_client.admin.values.acls import AclBinding

RESOURCES = ("topic", "group", "cluster", "transactional-id", "delegation-token", "user")
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

EnumT = TypeVar("EnumT", bound=IntEnum)


@click.group("acl", cls=NearestGroup)
def command() -> None:
    """ACLs: list, create, delete."""


@command.command("list")
@click.option("--resource", type=click.Choice(RESOURCES))
@click.option("--name", help="The resource's name.")
@click.option("--principal", help="For example User:alice.")
@with_output
@with_connection
def list_acls(
    resource: str | None,
    name: str | None,
    principal: str | None,
    connection: Connection,
    output: Output,
) -> None:
    """List ACLs; options filter them."""

    async def work(admin: Admin) -> list[dict[str, Any]]:
        return [_data(binding) for binding in await _find(admin, resource, name, principal)]

    output.rows(connection.run_admin(work), _COLUMNS, empty="There are none.")


@command.command("create")
@click.argument("principal")
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
                resource_type=_member(AclResourceType, resource),
                resource_name=name or "kafka-cluster",
                pattern_type=PatternType.PREFIXED if prefixed else PatternType.LITERAL,
                principal=principal if ":" in principal else f"User:{principal}",
                host=host,
                operation=_member(AclOperation, operation),
                permission=AclPermission.DENY if deny else AclPermission.ALLOW,
            )
            for operation in operations
        ]
        (await admin.acls.create(bindings)).unwrap()
        for binding in bindings:
            click.echo(_sentence(binding))

    connection.run_admin(work)


@command.command("delete")
@click.option("--resource", type=click.Choice(RESOURCES))
@click.option("--name", help="The resource's name.")
@click.option("--principal", help="For example User:alice.")
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
        click.echo(_sentence(binding))
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


def _filter(resource: str | None, name: str | None, principal: str | None) -> Any:
    from barnabas_client.admin.values.acls import AclFilter
    from barnabas_protocol.acl import AclResourceType

    kind = AclResourceType.ANY if resource is None else _member(AclResourceType, resource)
    if principal is not None and ":" not in principal:
        principal = f"User:{principal}"
    return AclFilter(resource_type=kind, resource_name=name, principal=principal)


def _member(enumeration: type[EnumT], word: str) -> EnumT:
    return enumeration[word.upper().replace("-", "_")]


def _word(member: IntEnum) -> str:
    return member.name.lower().replace("_", "-")


def _data(binding: AclBinding) -> dict[str, Any]:
    return {
        "principal": binding.principal,
        "permission": _word(binding.permission),
        "operation": _word(binding.operation),
        "resource_type": _word(binding.resource_type),
        "resource_name": binding.resource_name,
        "pattern": _word(binding.pattern_type),
        "host": binding.host,
    }


def _sentence(binding: AclBinding) -> str:
    data = _data(binding)
    return (
        f"{data['permission']} {data['principal']} {data['operation']} on {data['resource_type']}"
        f" {data['resource_name']} ({data['pattern']}) from {data['host']}"
    )

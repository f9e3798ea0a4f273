"""Data of `barnabas acl list`, `quota list` and `user list`: rights, quotas and users."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from barnabas_client.admin.admin import Admin
    from barnabas_client.admin.values.acls import AclBinding
    from barnabas_client.admin.values.scram import ScramCredential

EnumT = TypeVar("EnumT", bound=IntEnum)


def member_of(enumeration: type[EnumT], word: str) -> EnumT:
    """A member by its word: `idempotent-write`. Raises: KeyError."""
    return enumeration[word.upper().replace("-", "_")]


def word_of(member: IntEnum) -> str:
    """The word for a member."""
    return member.name.lower().replace("_", "-")


def acl_data(binding: AclBinding) -> dict[str, Any]:
    """One ACL."""
    return {
        "principal": binding.principal,
        "permission": word_of(binding.permission),
        "operation": word_of(binding.operation),
        "resource_type": word_of(binding.resource_type),
        "resource_name": binding.resource_name,
        "pattern": word_of(binding.pattern_type),
        "host": binding.host,
    }


def acl_sentence(binding: AclBinding) -> str:
    """An ACL in words."""
    data = acl_data(binding)
    return (
        f"{data['permission']} {data['principal']} {data['operation']} on {data['resource_type']}"
        f" {data['resource_name']} ({data['pattern']}) from {data['host']}"
    )


def credential_data(credential: ScramCredential) -> dict[str, Any]:
    """How a user logs in."""
    name = credential.mechanism.name.replace("_", "-")
    return {"mechanism": f"SCRAM-{name}", "iterations": credential.iterations}


async def user_rows(admin: Admin) -> list[dict[str, Any]]:
    """All users who log in with SCRAM, a row for each mechanism. Raises: the client's errors."""
    users = (await admin.scram.describe()).unwrap()
    return [
        {"user": user, **credential_data(credential)}
        for user, credentials in sorted(users.items())
        for credential in credentials
    ]


async def quota_rows(
    admin: Admin, *, user: str | None = None, client_id: str | None = None
) -> list[dict[str, Any]]:
    """All quotas, or those of a user or a client id. Raises: the client's errors."""
    wanted = {"user": user, "client-id": client_id}
    return [
        {"entity": str(entity), "quota": key, "value": value}
        for entity, values in sorted((await admin.quotas.list()).items(), key=str)
        if all(
            name is None or dict(entity.components).get(kind) == name
            for kind, name in wanted.items()
        )
        for key, value in sorted(values.items())
    ]

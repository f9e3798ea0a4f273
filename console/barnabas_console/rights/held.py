"""Which rights a viewer surely lacks: by what brokers say of its operations (KIP-430).

Invariant: what brokers do not tell is not lacking. They tell nothing of a transactional id, of the
cluster only to who may DESCRIBE it, and never whether somebody may DELETE from the cluster: that
can be ruled out only where its ACLs are shown, and none allows it to anybody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.acls import AclFilter
from barnabas_client.admin.values.groups import GroupType
from barnabas_client.errors import AuthorizationError, BarnabasError
from barnabas_console.rights.needed import AnyOf, Need, lock_of
from barnabas_console.viewer import Viewer
from barnabas_protocol.acl import AclOperation, AclPermission, AclResourceType

Operations = frozenset[AclOperation]

#: Their descriptions are read in a few milliseconds.
TOPICS_PER_CALL: Final = 100

#: An ACL that allows one of these allows to DESCRIBE, too.
_IMPLY_DESCRIBE: Final = frozenset(
    {
        *(AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER),
        AclOperation.DESCRIBE,
    }
)


async def locks(viewer: Viewer, acts: Mapping[str, AnyOf]) -> dict[str, dict[str, Any]]:
    """Those of some acts that the viewer surely may not do, and why. Raises: client's errors."""
    found = {}
    for act, needed in acts.items():
        if await lacks(viewer, needed):
            found[act] = lock_of(viewer.principal, needed)
    return found


async def first_lock(viewer: Viewer, all_needed: Iterable[AnyOf]) -> dict[str, Any] | None:
    """The first of several things that the viewer surely may not do; None where there is none.

    A reset may be of thousands of topics: those are asked about some at a time.
    """
    of_topics: list[AnyOf] = []
    for needed in all_needed:
        if len(needed) == 1 and needed[0].resource_type is AclResourceType.TOPIC:
            of_topics.append(needed)
        elif await lacks(viewer, needed):
            return lock_of(viewer.principal, needed)
    for start in range(0, len(of_topics), TOPICS_PER_CALL):
        lacking = await _first_lacking(viewer.admin, of_topics[start : start + TOPICS_PER_CALL])
        if lacking is not None:
            return lock_of(viewer.principal, lacking)
    return None


async def _first_lacking(admin: Admin, of_topics: Sequence[AnyOf]) -> AnyOf | None:
    """The first of some rights to topics that is surely lacking."""
    names = list(dict.fromkeys(need.name for (need,) in of_topics))
    try:
        described = await admin.topics.describe(names, include_authorized_operations=True)
    except BarnabasError:
        return None
    for needed in of_topics:
        (need,) = needed
        found = described[need.name]
        if isinstance(found.error, AuthorizationError):
            if need.operation in _IMPLY_DESCRIBE:
                return needed
        elif found.is_ok:
            held = found.unwrap().authorized_operations
            if held is not None and need.operation not in held:
                return needed
    return None


async def lacks(viewer: Viewer, needed: AnyOf) -> bool:
    """Whether the viewer surely has none of these rights."""
    for need in needed:
        if not await _lacks(viewer, need):
            return False
    return True


async def _lacks(viewer: Viewer, need: Need) -> bool:
    try:
        match need.resource_type:
            case AclResourceType.CLUSTER:
                return await _lacks_on_cluster(viewer, need.operation)
            case AclResourceType.TOPIC:
                held = await viewer.shared(
                    ("operations of topic", need.name),
                    lambda: _of_topic(viewer.admin, need.name),
                )
            case AclResourceType.GROUP:
                held = await viewer.shared(
                    ("operations of group", need.name),
                    lambda: _of_group(viewer.admin, need.name),
                )
            case _:
                return False
    except AuthorizationError:
        return need.operation in _IMPLY_DESCRIBE
    except BarnabasError:
        return False
    return held is not None and need.operation not in held


async def _lacks_on_cluster(viewer: Viewer, operation: AclOperation) -> bool:
    held = (await viewer.cluster.described()).authorized_operations
    if held is None or operation in held:
        return False
    if AclOperation.DESCRIBE not in held:
        return operation in _IMPLY_DESCRIBE
    if operation is not AclOperation.DELETE:
        return True
    return not await viewer.shared(
        "deleting from the cluster", lambda: _may_be_deleted(viewer.admin)
    )


async def _may_be_deleted(admin: Admin) -> bool:
    """Whether an ACL lets anybody delete from the cluster."""
    rules = await admin.acls.list(AclFilter(resource_type=AclResourceType.CLUSTER))
    return any(
        rule.permission is AclPermission.ALLOW
        and rule.operation in (AclOperation.DELETE, AclOperation.ALL)
        for rule in rules
    )


async def _of_topic(admin: Admin, name: str) -> Operations | None:
    described = await admin.topics.describe([name], include_authorized_operations=True)
    return described[name].unwrap().authorized_operations


async def _of_group(admin: Admin, name: str) -> Operations | None:
    """By the request of the group's own kind; None for one that is not there."""
    listed = {one.group_id: one.type for one in await admin.groups.list()}
    if name not in listed:
        return None
    match listed[name]:
        case GroupType.SHARE:
            shared = await admin.share_groups.describe([name], include_authorized_operations=True)
            return shared[name].unwrap().authorized_operations
        case GroupType.CLASSIC:
            classic = await admin.groups.describe_classic(
                [name], include_authorized_operations=True
            )
            return classic[name].unwrap().authorized_operations
        case _:
            found = await admin.groups.describe([name], include_authorized_operations=True)
            return found[name].unwrap().authorized_operations

"""ACLs: pure commands that make and remove them.

Each ACL of a creation succeeds or fails alone; one that is there already is made again without a
record. A deletion takes effect as a whole or not at all. Texts of refusals are Kafka's, whose tools
print them.

**ours:** what `ACLS_MAX` and the lengths below limit; addresses with a zone, of which no connection
knows here.

Source: SEC-41, SEC-43, KIP-140, KIP-290, KIP-1276.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from barnabas_broker.controller.features import require_security_records
from barnabas_broker.metadata.acl_table import AclTable, id_of
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metadata.records import AclRecord, MetadataRecord, RemoveAclRecord
from barnabas_broker.security.acl.acl import WILDCARD, Acl, AclFilter
from barnabas_broker.security.acl.hosts import parse_cidr
from barnabas_broker.security.authorizer import CLUSTER_NAME
from barnabas_protocol.acl import AclOperation, AclPermission, AclResourceType, PatternType
from barnabas_protocol.errors import ErrorCode, KafkaError

ACLS_MAX: Final = 50_000
"""Each broker keeps them all, and looks at all of them when it starts."""
DELETED_MAX: Final = 10_000
"""ACLs that one request removes."""
ATOMIC_MAX: Final = 500
"""ACLs that one command makes, in some milliseconds; a larger request is several commands."""
SCANNED_MAX: Final = 2_000_000
"""Comparisons of ACLs with filters for one request: about a second of a thread."""
NAME_LENGTH_MAX: Final = 1024
PRINCIPAL_LENGTH_MAX: Final = 1024
HOST_LENGTH_MAX: Final = 128

_NO_FILTER: Final = (AclResourceType.ANY, AclResourceType.UNKNOWN)
_PATTERNS: Final = (PatternType.LITERAL, PatternType.PREFIXED)


def create(
    image: MetadataImage, acls: Sequence[Acl]
) -> tuple[list[MetadataRecord], list[KafkaError | None]]:
    """The records of new ACLs, and for each why it was refused, or None.

    Raises: KafkaError where the cluster is not at their level.
    """
    require_security_records(image)
    records: dict[bytes, MetadataRecord] = {}
    errors: list[KafkaError | None] = []
    table, room = image.acls, ACLS_MAX - len(image.acls)
    for acl in acls:
        try:
            _check(acl)
            acl_id = id_of(acl)
            if table.get(acl_id) is None and acl_id not in records:
                if len(records) >= room:
                    raise KafkaError(
                        ErrorCode.POLICY_VIOLATION, f"There are {ACLS_MAX} ACLs already."
                    )
                records[acl_id] = AclRecord(acl_id, acl)
        except KafkaError as error:
            errors.append(error)
        else:
            errors.append(None)
    return list(records.values()), errors


def creation_order(acls: Sequence[Acl]) -> list[list[int]]:
    """The commands that make very many ACLs: which of them each makes.

    One command while there are few. Else what is denied comes first, so that nobody may do more in
    between than before or than at the end.
    """
    order = sorted(range(len(acls)), key=lambda at: acls[at].permission == AclPermission.ALLOW)
    return [order[start : start + ATOMIC_MAX] for start in range(0, len(order), ATOMIC_MAX)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """What filters select from a table of ACLs: for each filter, and the ids of all."""

    table: AclTable
    selected: list[list[Acl] | KafkaError]
    acl_ids: tuple[bytes, ...]


def plan_deletion(table: AclTable, filters: Sequence[AclFilter]) -> Deletion:
    """What a deletion removes; may take a second: not for the loop where there are many ACLs.

    Raises: KafkaError 42 where it is too much for one request.
    """
    selected: list[list[Acl] | KafkaError] = []
    acl_ids: dict[bytes, None] = {}
    left, to_scan = DELETED_MAX, SCANNED_MAX
    for wanted in filters:
        refusal = _filter_refusal(wanted)
        if refusal is not None:
            selected.append(refusal)
            continue
        only = _only(wanted)
        if only is None:
            to_scan -= len(table)
            if to_scan < 0:
                raise _refusal("The filters of one request select from too many acls.")
        found = [
            (acl_id, acl)
            for acl_id, acl in (table.items() if only is None else _one(table, only))
            if wanted.matches(acl)
        ]
        left -= len(found)
        if left < 0:
            raise _refusal(
                f"Cannot remove more than {DELETED_MAX} acls in a single delete operation."
            )
        acl_ids.update((acl_id, None) for acl_id, _ in found)
        selected.append([acl for _, acl in found])
    return Deletion(table=table, selected=selected, acl_ids=tuple(acl_ids))


def delete(
    image: MetadataImage, deletion: Deletion
) -> tuple[list[MetadataRecord], Deletion | None]:
    """The record of a deletion that was planned; None where it is to be planned anew.

    Raises: KafkaError where the cluster is not at the level of ACLs.
    """
    require_security_records(image)
    if image.acls is not deletion.table:
        return [], None
    return [RemoveAclRecord(deletion.acl_ids)] if deletion.acl_ids else [], deletion


def _refusal(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, reason)


def _check(acl: Acl) -> None:
    """Raises: KafkaError 42, in the order of Kafka's checks."""
    resource_type = AclResourceType(acl.resource_type)
    if resource_type == AclResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        raise _refusal(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not acl.resource_name:
        raise _refusal("Invalid empty resource name")
    if resource_type in _NO_FILTER:
        raise _refusal(f"Invalid resourceType {resource_type.name}")
    pattern_type = PatternType(acl.pattern_type)
    if pattern_type not in _PATTERNS:
        raise _refusal(f"Invalid patternType {pattern_type.name}")
    operation = AclOperation(acl.operation)
    if operation in (AclOperation.ANY, AclOperation.UNKNOWN):
        raise _refusal(f"Invalid operation {operation.name}")
    permission = AclPermission(acl.permission)
    if permission not in (AclPermission.ALLOW, AclPermission.DENY):
        raise _refusal(f"Invalid permissionType {permission.name}")
    _check_lengths(acl)
    if ":" not in acl.principal:
        raise _refusal(
            f"Could not parse principal from `{acl.principal}` (no colon is present separating the "
            "principal type from the principal name)"
        )
    _check_host(acl.host)


def _check_lengths(acl: Acl) -> None:
    for what, text, length_max in (
        ("resource name", acl.resource_name, NAME_LENGTH_MAX),
        ("principal", acl.principal, PRINCIPAL_LENGTH_MAX),
        ("host", acl.host, HOST_LENGTH_MAX),
    ):
        if len(text) > length_max:
            raise _refusal(f"The {what} has {len(text)} characters, {length_max} at most.")


def _check_host(host: str) -> None:
    if not host:
        raise _refusal("Host pattern cannot be null or empty")
    if host == WILDCARD:
        return
    if "%" in host:
        raise _refusal("Addresses with a zone are not known here; leave the zone out.")
    if "/" in host:
        try:
            parse_cidr(host)
        except ValueError as error:
            raise _refusal(f"Invalid CIDR notation '{host}': {error}") from None


def _filter_refusal(wanted: AclFilter) -> KafkaError | None:
    """Why a filter selects nothing that it could name."""
    if AclResourceType(wanted.resource_type) == AclResourceType.UNKNOWN or (
        PatternType(wanted.pattern_type) == PatternType.UNKNOWN
    ):
        return _refusal("Unknown patternFilter.")
    if AclOperation(wanted.operation) == AclOperation.UNKNOWN or (
        AclPermission(wanted.permission) == AclPermission.UNKNOWN
    ):
        return _refusal("Unknown entryFilter.")
    return None


def _only(wanted: AclFilter) -> Acl | None:
    """The only ACL that a filter can select; None where it can select several."""
    name, principal, host = wanted.resource_name, wanted.principal, wanted.host
    if (
        name is None
        or principal is None
        or host is None
        or wanted.resource_type == AclResourceType.ANY
        or wanted.pattern_type not in _PATTERNS
        or wanted.operation == AclOperation.ANY
        or wanted.permission == AclPermission.ANY
    ):
        return None
    return Acl(
        wanted.resource_type,
        name,
        wanted.pattern_type,
        principal,
        host,
        wanted.operation,
        wanted.permission,
    )


def _one(table: AclTable, acl: Acl) -> list[tuple[bytes, Acl]]:
    acl_id = id_of(acl)
    found = table.get(acl_id)
    return [] if found is None else [(acl_id, found)]

"""Which APIs change something, and what the audit log tells of each (SEC-70, SEC-71).

Of each change: what it is about, and whether it was made. Never what it sets: values may be
secrets. A request that changes very many things has a line for the first of them, what was changed
before what was refused, and one for the rest.

Not here: denials (`authorization`), what becomes of events (`security.audit`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

from barnabas_broker.handlers.audit_source import audit_source
from barnabas_broker.handlers.broker_listener import is_of_brokers
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_broker.security.acl.acl import Acl
from barnabas_broker.security.audit.audit_event import AuditKind
from barnabas_protocol.acl import AclOperation, AclPermission, AclResourceType, PatternType
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import uuid_to_text

Handle = Callable[[Services, InFlightRequest, Any], Any]
LINES_MAX: Final = 50
"""Of one request."""
_CONFIG_TYPES: Final = {2: "TOPIC", 4: "BROKER", 8: "LOGGER", 16: "CLIENT_METRICS", 32: "GROUP"}


class _Change(NamedTuple):
    """What was changed, and the error code of it."""

    resource: str
    code: int


class _Audited(NamedTuple):
    """How a response is read: its changes, in view of the request."""

    kind: AuditKind
    changes: Callable[[Any, Any], Iterable[_Change]]
    is_of_clients: bool = False  # brokers do it all the time, and nobody asks them to


def audited(key: ApiKey, handle: Handle) -> Handle:
    """A handler that tells the audit log what it has changed; the same one for other APIs."""
    how = _AUDITED.get(key)
    if how is None:
        return handle

    def handle_audited(services: Services, in_flight: InFlightRequest, request: Any) -> Any:
        is_told = services.audit is not None and not getattr(request, "validate_only", False)
        if not is_told or (how.is_of_clients and is_of_brokers(services, in_flight)):
            return handle(services, in_flight, request)
        return _told(how, handle, services, in_flight, request)

    return handle_audited


async def _told(
    how: _Audited, handle: Handle, services: Services, in_flight: InFlightRequest, request: Any
) -> Any:
    """The response of a handler, once the audit log is told of it."""
    try:
        response = await _response(handle(services, in_flight, request))
    except KafkaError as error:
        _note(services, in_flight, how.kind, [_Change("", error.code)])
        raise
    if isinstance(response, bytes):  # encoded in a thread already: too many to be told
        _note(services, in_flight, how.kind, [_Change("(very many)", ErrorCode.NONE)])
    else:
        _note(services, in_flight, how.kind, how.changes(request, response))
    return response


async def _response(response: Any) -> Any:
    return await response if inspect.isawaitable(response) else response


def _note(
    services: Services, in_flight: InFlightRequest, kind: AuditKind, changes: Iterable[_Change]
) -> None:
    audit = services.audit
    assert audit is not None
    left = iter(sorted(changes, key=_is_refused))
    source = audit_source(in_flight)
    for change in islice(left, LINES_MAX):
        failure = None if change.code == ErrorCode.NONE else ErrorCode(change.code).name
        audit.changed(kind, source, change.resource, failure=failure)
    if next(left, None) is not None:
        audit.changed(kind, source, "(and more)")


def _is_refused(change: _Change) -> bool:
    return change.code != ErrorCode.NONE


def _topics(of: str) -> Callable[[Any, Any], Iterator[_Change]]:
    def changes(request: Any, response: Any) -> Iterator[_Change]:
        for one in getattr(response, of):
            name = one.name if one.name is not None else uuid_to_text(one.topic_id)
            yield _Change(f"TOPIC:{name}", one.error_code)

    return changes


def _partitions(of: str, name: str, partitions: str) -> Callable[[Any, Any], Iterator[_Change]]:
    """Of responses that name topics with partitions: a topic each, with its first error."""

    def changes(request: Any, response: Any) -> Iterator[_Change]:
        for topic in getattr(response, of):
            codes = [one.error_code for one in getattr(topic, partitions)]
            yield _Change(
                f"TOPIC:{getattr(topic, name)}", next((code for code in codes if code), 0)
            )

    return changes


def _configs(request: Any, response: Any) -> Iterator[_Change]:
    for one in response.responses:
        kind = _CONFIG_TYPES.get(one.resource_type, str(one.resource_type))
        yield _Change(f"{kind}:{one.resource_name}", one.error_code)


def _quotas(request: Any, response: Any) -> Iterator[_Change]:
    for entry in response.entries:
        parts = {part.entity_type: part.entity_name for part in entry.entity}
        entity = ",".join(
            f"{kind}={'(default)' if name is None else name}" for kind, name in parts.items()
        )
        yield _Change(f"QUOTA:{entity}", entry.error_code)


def _groups(request: Any, response: Any) -> Iterator[_Change]:
    for one in response.results:
        yield _Change(f"GROUP:{one.group_id}", one.error_code)


def _group(request: Any, response: Any) -> Iterator[_Change]:
    yield _Change(f"GROUP:{request.group_id}", response.error_code)


def _share_offsets(request: Any, response: Any) -> Iterator[_Change]:
    yield _Change(f"GROUP:{request.group_id}", response.error_code)
    for topic in response.responses:
        codes = [one.error_code for one in getattr(topic, "partitions", ())]
        codes.append(getattr(topic, "error_code", 0))
        yield _Change(f"TOPIC:{topic.topic_name}", next((code for code in codes if code), 0))


def _markers(request: Any, response: Any) -> Iterator[_Change]:
    of_topic = _partitions("topics", "name", "partitions")
    for marker in response.markers:
        yield from of_topic(request, marker)


def _credentials(request: Any, response: Any) -> Iterator[_Change]:
    for one in response.results:
        yield _Change(f"USER:{one.user}", one.error_code)


def _features(request: Any, response: Any) -> Iterator[_Change]:
    for one in request.feature_updates:
        yield _Change(f"FEATURE:{one.feature}", response.error_code)


def _broker(request: Any, response: Any) -> Iterator[_Change]:
    yield _Change(f"BROKER:{request.broker_id}", response.error_code)


def _created_acls(request: Any, response: Any) -> Iterator[_Change]:
    for one, result in zip(request.creations, response.results, strict=True):
        acl = Acl(
            one.resource_type,
            one.resource_name,
            one.resource_pattern_type,
            one.principal,
            one.host,
            one.operation,
            one.permission_type,
        )
        yield _Change(str(acl), result.error_code)


def _deleted_acls(request: Any, response: Any) -> Iterator[_Change]:
    for wanted, result in zip(request.filters, response.filter_results, strict=True):
        for one in result.matching_acls:
            acl = Acl(
                one.resource_type,
                one.resource_name,
                one.pattern_type,
                one.principal,
                one.host,
                one.operation,
                one.permission_type,
            )
            yield _Change(str(acl), one.error_code)
        if result.error_code or not result.matching_acls:
            yield _Change(_filter_text(wanted), result.error_code)


def _filter_text(wanted: Any) -> str:
    words = (
        AclPermission(wanted.permission_type).name,
        AclOperation(wanted.operation).name,
        AclResourceType(wanted.resource_type_filter).name,
        PatternType(wanted.pattern_type_filter).name,
    )
    return f"none of {' '.join(words)}"


_AUDITED: Final[dict[ApiKey, _Audited]] = {
    ApiKey.CREATE_TOPICS: _Audited(AuditKind.ADMIN, _topics("topics")),
    ApiKey.DELETE_TOPICS: _Audited(AuditKind.ADMIN, _topics("responses")),
    ApiKey.CREATE_PARTITIONS: _Audited(AuditKind.ADMIN, _topics("results")),
    ApiKey.DELETE_RECORDS: _Audited(AuditKind.ADMIN, _partitions("topics", "name", "partitions")),
    ApiKey.ALTER_CONFIGS: _Audited(AuditKind.ADMIN, _configs),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _Audited(AuditKind.ADMIN, _configs),
    ApiKey.ALTER_CLIENT_QUOTAS: _Audited(AuditKind.ADMIN, _quotas),
    ApiKey.ELECT_LEADERS: _Audited(
        AuditKind.ADMIN, _partitions("replica_election_results", "topic", "partition_result")
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _Audited(
        AuditKind.ADMIN, _partitions("responses", "name", "partitions")
    ),
    ApiKey.ALTER_REPLICA_LOG_DIRS: _Audited(
        AuditKind.ADMIN, _partitions("results", "topic_name", "partitions")
    ),
    ApiKey.UPDATE_FEATURES: _Audited(AuditKind.ADMIN, _features),
    ApiKey.UNREGISTER_BROKER: _Audited(AuditKind.ADMIN, _broker),
    ApiKey.DELETE_GROUPS: _Audited(AuditKind.ADMIN, _groups),
    ApiKey.OFFSET_DELETE: _Audited(AuditKind.ADMIN, _group),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: _Audited(AuditKind.ADMIN, _share_offsets),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: _Audited(AuditKind.ADMIN, _share_offsets),
    ApiKey.WRITE_TXN_MARKERS: _Audited(AuditKind.ADMIN, _markers, is_of_clients=True),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _Audited(AuditKind.CREDENTIAL, _credentials),
    ApiKey.CREATE_ACLS: _Audited(AuditKind.ACL, _created_acls),
    ApiKey.DELETE_ACLS: _Audited(AuditKind.ACL, _deleted_acls),
}

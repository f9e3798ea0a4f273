"""One event of the audit log, and its line of JSON. Pure.

A line has what is named here and nothing else: there is no field for a secret, a key, a record or
the value of a setting. What clients have chosen (names, client ids) is cut and escaped: a line
stays one line of ASCII, whatever they choose.

Source: SEC-70, SEC-71.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from enum import Enum
from typing import Final, NamedTuple

TEXT_LENGTH_MAX: Final = 256
"""Of each text in a line; a longer one ends with three full stops."""


class AuditKind(Enum):
    """What an event is about."""

    LOG_IN = "login"
    ACCESS = "access"
    ADMIN = "admin"
    ACL = "acl"
    CREDENTIAL = "credential"
    DRAIN = "drain"
    DROPPED = "dropped"


class AuditOutcome(Enum):
    """What became of it."""

    SUCCESS = "success"
    FAILURE = "failure"
    ALLOWED = "allowed"
    DENIED = "denied"
    WOULD_BE_DENIED = "would be denied"  # in the mode that only audits


class AuditSource(NamedTuple):
    """Who, from where, by which request."""

    principal: str = ""
    host: str = ""
    listener: str = ""
    mechanism: str = ""
    client_id: str = ""
    api: str = ""
    version: int = -1
    correlation_id: int = -1


class AuditEvent(NamedTuple):
    """What happened; `reason` is a text or an error of ours, never a client's."""

    kind: AuditKind
    outcome: AuditOutcome
    source: AuditSource
    operation: str = ""
    resource: str = ""  # "topic:orders"
    rule: str = ""  # that decided
    reason: str = ""

    @property
    def sameness(self) -> tuple[object, ...]:
        """What two events have in common of which one line tells."""
        source = self.source
        return (
            self.kind,
            self.outcome,
            source.principal,
            source.host,
            source.api,
            self.operation,
            self.resource,
            self.reason,
        )


def line_of(event: AuditEvent, *, wall_ms: int, node_id: int, repeated: int) -> str:
    """The line of an event; `repeated` is how often it happened since the last line of it."""
    source = event.source
    moment = datetime.fromtimestamp(wall_ms / 1000, UTC)
    fields: dict[str, str | int] = {
        "time": f"{moment:%Y-%m-%dT%H:%M:%S}.{wall_ms % 1000:03d}Z",
        "node": node_id,
        "event": event.kind.value,
        "outcome": event.outcome.value,
        "principal": source.principal,
        "mechanism": source.mechanism,
        "host": source.host,
        "listener": source.listener,
        "client_id": source.client_id,
        "api": source.api,
        "version": source.version,
        "correlation_id": source.correlation_id,
        "operation": event.operation,
        "resource": event.resource,
        "rule": event.rule,
        "reason": event.reason,
        "repeated": repeated,
    }
    told = {
        name: cut(value) if isinstance(value, str) else value
        for name, value in fields.items()
        if value not in ("", -1)
    }
    return json.dumps(told, ensure_ascii=True, separators=(",", ":"))


def shortened(event: AuditEvent) -> AuditEvent:
    """The same event with no longer texts than a line has: it may be kept for a while."""
    source = event.source
    if all(
        len(text) <= TEXT_LENGTH_MAX
        for text in (source.principal, source.client_id, event.resource, event.rule)
    ):
        return event
    source = source._replace(principal=cut(source.principal), client_id=cut(source.client_id))
    return event._replace(source=source, resource=cut(event.resource), rule=cut(event.rule))


def cut(text: str) -> str:
    """A text as a line has it."""
    return text if len(text) <= TEXT_LENGTH_MAX else f"{text[: TEXT_LENGTH_MAX - 3]}..."

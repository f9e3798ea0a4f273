"""What handlers, log-in and the admin HTTP tell the audit log. One small object; never waits.

`Audit` says what is told at all: each denial of something that was named, each failed log-in, each
change, and the first allowed access of an hour. Checks that only leave things out of a list are
not for it (SEC-71).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from barnabas_broker.config.audit_settings import AUTO, ON
from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.security.audit.audit_event import (
    AuditEvent,
    AuditKind,
    AuditOutcome,
    AuditSource,
)
from barnabas_broker.security.audit.audit_log import AuditLog
from barnabas_broker.security.principal import Principal
from barnabas_protocol.acl import AclOperation, AclResourceType

_ACCESSES: Final = frozenset((AclOperation.READ, AclOperation.WRITE))
_DATA: Final = frozenset(
    (AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.TRANSACTIONAL_ID)
)


class Judge(Protocol):
    """The authorizer, as far as it is asked about what it has decided."""

    @property
    def is_audit_only(self) -> bool:
        """Whether it allows what ACLs deny."""
        ...

    def denies(
        self,
        principal: Principal,
        host: str,
        operation: AclOperation,
        resource_type: AclResourceType,
        name: str | None,
    ) -> bool:
        """Whether ACLs deny something, whatever the mode; without a name, on any resource."""
        ...

    def rule_text(
        self,
        principal: Principal,
        host: str,
        operation: AclOperation,
        resource_type: AclResourceType,
        name: str | None,
    ) -> str:
        """Which rule decides."""
        ...


Source = Callable[[], AuditSource]
"""Who requests something, asked only where there is a line to write."""


class Audit:
    """Takes events of one broker."""

    __slots__ = ("_judge", "log")

    def __init__(self, log: AuditLog, judge: Judge | None = None) -> None:
        """`judge` is the authorizer whose decisions are told of, if there is one."""
        self.log = log
        self._judge = judge

    def checked(
        self,
        principal: Principal,
        host: str,
        source: Source,
        operation: AclOperation,
        resource_type: AclResourceType,
        name: str | None,
        *,
        is_allowed: bool,
    ) -> None:
        """Take note of what the authorizer said to something that was named.

        Without a name, of whether there can be such a resource at all.
        """
        judge = self._judge
        if judge is None:
            return
        outcome = AuditOutcome.ALLOWED if is_allowed else AuditOutcome.DENIED
        question = (principal, host, operation, resource_type, name)
        if is_allowed and judge.is_audit_only and judge.denies(*question):
            outcome = AuditOutcome.WOULD_BE_DENIED
        if outcome is AuditOutcome.ALLOWED and not (
            operation in _ACCESSES
            and resource_type in _DATA
            and name is not None
            and self.log.is_first_access(str(principal), operation, (resource_type, name))
        ):
            return
        if self.log.drops(str(principal)):
            return
        self.log.note(
            AuditEvent(
                AuditKind.ACCESS,
                outcome,
                source(),
                operation=operation.name,
                resource=f"{resource_type.name}:{'(any)' if name is None else name}",
                rule=judge.rule_text(*question),
            )
        )

    def log_in(self, source: AuditSource, *, failure: str | None = None) -> None:
        """Take note of a log-in; `failure` is why it failed, in words of ours.

        The principal is who was logged in, or who it was tried for.
        """
        outcome = AuditOutcome.SUCCESS if failure is None else AuditOutcome.FAILURE
        self.log.note(AuditEvent(AuditKind.LOG_IN, outcome, source, reason=failure or ""))

    def changed(
        self,
        kind: AuditKind,
        source: AuditSource,
        resource: str,
        *,
        operation: str = "",
        failure: str | None = None,
    ) -> None:
        """Take note of a change of one resource, or that it failed, and why in words of ours.

        Never a value: what a setting or a credential is now does not belong here.
        """
        outcome = AuditOutcome.SUCCESS if failure is None else AuditOutcome.FAILURE
        self.log.note(
            AuditEvent(
                kind, outcome, source, operation=operation, resource=resource, reason=failure or ""
            )
        )


def is_audited(config: BrokerConfig) -> bool:
    """Whether there is an audit log."""
    if config.barnabas_audit != AUTO:
        return config.barnabas_audit == ON
    protocols = {endpoint.security_protocol for endpoint in config.listeners}
    return bool(config.authorizer_class_name) or protocols != {"PLAINTEXT"}

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
from barnabas_broker.security.authorizer import AccessQuestion
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

    def denies(self, question: AccessQuestion) -> bool:
        """Whether ACLs deny something, whatever the mode."""
        ...

    def rule_text(self, question: AccessQuestion) -> str:
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

    def checked(self, question: AccessQuestion, source: Source, *, is_allowed: bool) -> bool:
        """Take note of what the authorizer said to something that was named.

        Returns whether it need not be told of again: an allowed access may be asked for later, in
        the same hour, where there was no room for its line.
        """
        judge = self._judge
        if judge is None:
            return True
        outcome = AuditOutcome.ALLOWED if is_allowed else AuditOutcome.DENIED
        if is_allowed and judge.is_audit_only and judge.denies(question):
            outcome = AuditOutcome.WOULD_BE_DENIED
        if outcome is AuditOutcome.ALLOWED:
            return self._accessed(judge, question, source)
        if not self.log.drops(str(question.principal), outcome):
            self.log.note(_access(judge, question, source, outcome))
        return True

    def _accessed(self, judge: Judge, question: AccessQuestion, source: Source) -> bool:
        """Take note of an allowed access, if it is the first of its kind in this hour."""
        operation, resource_type, name = question[2:]
        if operation not in _ACCESSES or resource_type not in _DATA or name is None:
            return True
        access = str(question.principal), operation, (resource_type, name)
        if self.log.is_access_told(*access):
            return True
        outcome = AuditOutcome.ALLOWED
        if self.log.drops(str(question.principal), outcome):
            return False
        return self.log.note_access(_access(judge, question, source, outcome), *access)

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


def _access(
    judge: Judge, question: AccessQuestion, source: Source, outcome: AuditOutcome
) -> AuditEvent:
    name = "(any)" if question.name is None else question.name
    return AuditEvent(
        AuditKind.ACCESS,
        outcome,
        source(),
        operation=question.operation.name,
        resource=f"{question.resource_type.name}:{name}",
        rule=judge.rule_text(question),
    )


def is_audited(config: BrokerConfig) -> bool:
    """Whether there is an audit log."""
    if config.barnabas_audit != AUTO:
        return config.barnabas_audit == ON
    protocols = {endpoint.security_protocol for endpoint in config.listeners}
    return bool(config.authorizer_class_name) or protocols != {"PLAINTEXT"}

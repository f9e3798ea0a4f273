"""Tells the audit log of log-ins: who, from where, by which mechanism, and whether it worked.

Source: SEC-70, SEC-71.
"""

from __future__ import annotations

from barnabas_broker.network.login import LoginSession
from barnabas_broker.security.audit.audit import Audit
from barnabas_broker.security.audit.audit_event import AuditSource
from barnabas_broker.security.principal import Principal


class LoginAudit:
    """An observer of log-ins."""

    def __init__(self, audit: Audit) -> None:
        self._audit = audit

    def logged_in(self, session: LoginSession, mechanism: str, *, is_again: bool) -> None:
        """Somebody has logged in; again and again on one connection is one event."""
        if not is_again:
            self._audit.log_in(_source(session, session.principal, mechanism))

    def login_failed(
        self, session: LoginSession, mechanism: str, username: str, reason: str
    ) -> None:
        """A log-in has failed; the name is the client's word."""
        principal = Principal.user(username) if username else None
        self._audit.log_in(_source(session, principal, mechanism), failure=reason)


def _source(session: LoginSession, principal: Principal | None, mechanism: str) -> AuditSource:
    return AuditSource(
        principal="" if principal is None else str(principal),
        host=session.host,
        listener=session.listener_name,
        mechanism=mechanism,
    )

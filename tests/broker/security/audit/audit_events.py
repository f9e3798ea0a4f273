"""Events and an audit log with a clock that a test moves."""

from barnabas_broker.security.audit.audit_event import (
    AuditEvent,
    AuditKind,
    AuditOutcome,
    AuditSource,
)
from barnabas_broker.security.audit.audit_log import HOUR_MS, AuditLog
from tests.support.simulated_clock import SimulatedClock

START_MS = 1_700_000_000_123
ALICE = AuditSource(principal="User:alice", host="10.0.0.1")


def denied(topic: str, source: AuditSource = ALICE) -> AuditEvent:
    return AuditEvent(
        AuditKind.ACCESS, AuditOutcome.DENIED, source, operation="READ", resource=f"TOPIC:{topic}"
    )


def audit_log() -> tuple[AuditLog, SimulatedClock]:
    clock = SimulatedClock(monotonic_ms=5 * HOUR_MS, wall_ms=START_MS)
    return AuditLog(clock, 7), clock

"""Lines of the audit log: what they say, how many there are, and what never gets into one."""

import json

from hypothesis import given
from hypothesis import strategies as st

from barnabas_broker.security.audit.audit_event import (
    TEXT_LENGTH_MAX,
    AuditEvent,
    AuditKind,
    AuditOutcome,
    AuditSource,
    line_of,
)
from barnabas_broker.security.audit.audit_log import (
    ACCESSES_OF_PRINCIPAL_MAX,
    DONE_LINES_OF_PRINCIPAL_MAX,
    HOUR_MS,
    LINES_OF_PRINCIPAL_MAX,
    PRINCIPALS_MAX,
    RECENT_MAX,
    WAITING_MAX,
    AuditLog,
    WaitingLine,
)
from tests.broker.security.audit.audit_events import ALICE, START_MS, audit_log, denied


def repeats(lines: list[WaitingLine]) -> list[int]:
    return [line.repeated for line in lines]


def test_a_line_says_who_did_what_from_where_by_which_rule() -> None:
    """SEC-70: one JSON object, with what is known and nothing else."""
    source = AuditSource(
        principal="User:alice",
        host="10.0.0.1",
        listener="CLIENTS",
        mechanism="SCRAM-SHA-512",
        client_id="app",
        api="FETCH",
        version=17,
        correlation_id=0,
    )
    event = AuditEvent(
        AuditKind.ACCESS,
        AuditOutcome.DENIED,
        source,
        operation="READ",
        resource="TOPIC:orders",
        rule="DefaultDeny",
    )
    assert json.loads(line_of(event, wall_ms=START_MS, node_id=7, repeated=3)) == {
        "time": "2023-11-14T22:13:20.123Z",
        "node": 7,
        "event": "access",
        "outcome": "denied",
        "principal": "User:alice",
        "mechanism": "SCRAM-SHA-512",
        "host": "10.0.0.1",
        "listener": "CLIENTS",
        "client_id": "app",
        "api": "FETCH",
        "version": 17,
        "correlation_id": 0,
        "operation": "READ",
        "resource": "TOPIC:orders",
        "rule": "DefaultDeny",
        "repeated": 3,
    }


@given(st.text(max_size=400), st.text(max_size=400))
def test_whatever_a_client_calls_itself_a_line_is_one_short_line(name: str, client: str) -> None:
    """SEC-71: no line feed, no control character, no other field, no more than 256 of a text."""
    event = denied(name, AuditSource(principal=f"User:{name}", client_id=client))
    line = line_of(event, wall_ms=START_MS, node_id=1, repeated=1)
    assert line.isascii()
    assert line.isprintable()
    told = json.loads(line)
    assert told.keys() <= {
        *("time", "node", "event", "outcome", "principal", "client_id", "operation", "resource"),
        "repeated",
    }
    assert all(len(text) <= TEXT_LENGTH_MAX for text in told.values() if isinstance(text, str))
    if len(client) <= TEXT_LENGTH_MAX:
        assert told.get("client_id", "") == client


def test_the_same_event_has_one_line_a_second_with_a_count() -> None:
    """SEC-71: the first at once, the rest when the second is over; the counts are all of them."""
    log, clock = audit_log()
    for _ in range(10):
        log.note(denied("a"))
    assert repeats(log.take()) == [1]
    log.note(denied("b"))
    assert repeats(log.take()) == [1], "another event is told at once"
    clock.advance(999)
    assert log.sweep()
    assert not log.take()
    clock.advance(1)
    assert log.sweep()
    assert repeats(log.take()) == [9]
    clock.advance(2_000)
    log.note(denied("a"))
    assert repeats(log.take()) == [1]
    clock.advance(2_000)
    assert not log.sweep(), "nothing is left to be told"
    assert log.event_count == 12
    assert log.dropped_count == 0


def test_one_principal_s_flood_hides_nobody_else_s_denial() -> None:
    """SEC-71: a stranger names thousands of topics; what is not told is told as a number."""
    log, clock = audit_log()
    for number in range(3 * RECENT_MAX):
        log.note(denied(f"t{number}", AuditSource(principal="User:mallory")))
    log.note(denied("a"))
    lines = log.take()
    assert len(lines) == LINES_OF_PRINCIPAL_MAX + 1
    assert lines[-1].event.source == ALICE
    assert log.dropped_count == 3 * RECENT_MAX - LINES_OF_PRINCIPAL_MAX
    clock.advance(1_000)
    log.sweep()
    (dropped,) = log.take()
    assert dropped.event.kind is AuditKind.DROPPED
    assert dropped.repeated == log.dropped_count


def test_lines_that_nobody_takes_are_bounded() -> None:
    """SEC-71: a disk that takes no more costs lines, never memory."""
    log, clock = audit_log()
    told = 0
    while told < 2 * WAITING_MAX:
        for number in range(LINES_OF_PRINCIPAL_MAX):
            for user in range(10):
                log.note(denied(f"t{number}", AuditSource(principal=f"User:u{user}")))
                told += 1
        clock.advance(1_000)
        log.sweep()
    assert len(log.take()) == WAITING_MAX
    assert log.dropped_count >= told - WAITING_MAX


def accessed(log: AuditLog, user: str, topic: str) -> bool:
    """An allowed access; returns whether it has a line."""
    access = user, 3, (2, topic)
    if log.is_access_told(*access):
        return False
    event = denied(topic, AuditSource(principal=user))._replace(outcome=AuditOutcome.ALLOWED)
    return log.note_access(event, *access)


def test_an_allowed_access_is_told_once_in_an_hour() -> None:
    """SEC-71: per principal, operation and resource."""
    log, clock = audit_log()
    assert accessed(log, "User:a", "t")
    assert not accessed(log, "User:a", "t")
    assert accessed(log, "User:b", "t")
    assert accessed(log, "User:a", "s")
    clock.advance(HOUR_MS)
    assert accessed(log, "User:a", "t")


def test_accesses_of_one_principal_leave_room_for_those_of_others() -> None:
    """SEC-71: who may read whatever begins with something can invent any number of topics."""
    log, clock = audit_log()
    for number in range(ACCESSES_OF_PRINCIPAL_MAX + 10):
        if number % DONE_LINES_OF_PRINCIPAL_MAX == 0:
            clock.advance(1_000)
            log.take()
        accessed(log, "User:a", f"t{number}")
    assert log.dropped_count == 10
    assert accessed(log, "User:b", "t")


def test_an_access_without_a_line_gets_one_later() -> None:
    """SEC-71: nobody reads in peace behind what he has read before in the same second."""
    log, clock = audit_log()
    for number in range(DONE_LINES_OF_PRINCIPAL_MAX):
        assert accessed(log, "User:a", f"t{number}")
    assert log.drops("User:a", AuditOutcome.ALLOWED)
    assert not accessed(log, "User:a", "payroll")
    clock.advance(1_000)
    assert accessed(log, "User:a", "payroll")


def test_nobody_hides_what_he_does_behind_what_he_is_refused() -> None:
    """SEC-71: a hundred denials, then the deletion; the deletion has its line."""
    log, _ = audit_log()
    for number in range(2 * LINES_OF_PRINCIPAL_MAX):
        log.note(denied(f"t{number}"))
    log.take()
    deletion = AuditEvent(AuditKind.ADMIN, AuditOutcome.SUCCESS, ALICE, resource="TOPIC:payroll")
    log.note(deletion)
    assert accessed(log, ALICE.principal, "payroll")
    assert [line.event.resource for line in log.take()] == ["TOPIC:payroll"] * 2


def test_failed_log_ins_by_invented_names_hide_nobody_s() -> None:
    """SEC-71: names are bounded by the address that sends them."""
    log, _ = audit_log()
    for number in range(2 * PRINCIPALS_MAX):
        source = AuditSource(principal=f"User:u{number}", host="6.6.6.6")
        log.note(AuditEvent(AuditKind.LOG_IN, AuditOutcome.FAILURE, source))
    log.note(AuditEvent(AuditKind.LOG_IN, AuditOutcome.FAILURE, ALICE))
    lines = log.take()
    assert len(lines) == LINES_OF_PRINCIPAL_MAX + 1
    assert lines[-1].event.source == ALICE


def test_events_that_differ_are_told_when_no_more_are_remembered() -> None:
    """SEC-71: what is full is the memory of repetitions."""
    log, _ = audit_log()
    for number in range(RECENT_MAX):
        user = AuditSource(principal=f"User:u{number // LINES_OF_PRINCIPAL_MAX}")
        log.note(denied(f"t{number}", user))
    log.take()
    log.note(denied("a"))
    assert [line.event.source for line in log.take()] == [ALICE]

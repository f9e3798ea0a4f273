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
    ACCESSES_MAX,
    HOUR_MS,
    LINES_OF_PRINCIPAL_MAX,
    RECENT_MAX,
    WAITING_MAX,
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


def test_an_allowed_access_is_told_once_in_an_hour() -> None:
    """SEC-71: per principal, operation and resource; the memory of it is bounded."""
    log, clock = audit_log()
    assert log.is_first_access("User:a", 3, (2, "t"))
    assert not log.is_first_access("User:a", 3, (2, "t"))
    assert log.is_first_access("User:b", 3, (2, "t"))
    assert log.is_first_access("User:a", 4, (2, "t"))
    clock.advance(HOUR_MS)
    assert log.is_first_access("User:a", 3, (2, "t"))
    for number in range(ACCESSES_MAX + 10):
        log.is_first_access("User:a", 3, (2, f"t{number}"))
    assert log.dropped_count == 11

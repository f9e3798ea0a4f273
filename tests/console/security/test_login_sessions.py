"""Sessions of who is logged in (CON-140)."""

from barnabas_console.security.login_sessions import (
    IDLE_MS,
    LIFETIME_MS,
    OWN_SESSIONS_MAX,
    SESSIONS_MAX,
    LoginSessions,
)
from tests.support.simulated_clock import SimulatedClock


def test_a_session_is_found_by_its_token_alone() -> None:
    sessions = LoginSessions[str](SimulatedClock())
    alice, bob = sessions.open("alice", "alice"), sessions.open("bob", "bob")
    assert (sessions.find(alice), sessions.find(bob)) == ("alice", "bob")
    for guess in (None, "", "x", alice[:-1], alice + "x", "é" * 10, "x" * 100_000):
        assert sessions.find(guess) is None


def test_a_session_ends_when_nobody_uses_it() -> None:
    """30 minutes; a request in time keeps it."""
    clock = SimulatedClock()
    sessions = LoginSessions[str](clock)
    token = sessions.open("alice", "alice")
    clock.advance(IDLE_MS - 1)
    assert sessions.find(token) == "alice"
    clock.advance(IDLE_MS - 1)
    assert sessions.find(token) == "alice"
    clock.advance(IDLE_MS)
    assert sessions.find(token) is None
    assert sessions.owners() == []


def test_a_session_ends_after_twelve_hours_however_busy_it_is() -> None:
    clock = SimulatedClock()
    sessions = LoginSessions[str](clock)
    token = sessions.open("alice", "alice")
    step_ms = IDLE_MS // 2
    for _ in range(LIFETIME_MS // step_ms - 1):
        clock.advance(step_ms)
        assert sessions.find(token) == "alice"
    clock.advance(step_ms)
    assert sessions.find(token) is None


def test_who_logs_out_is_out() -> None:
    sessions = LoginSessions[str](SimulatedClock())
    token = sessions.open("alice", "alice")
    sessions.end(token)
    assert sessions.find(token) is None


def test_sessions_are_bounded_and_the_least_lately_used_makes_room() -> None:
    sessions = LoginSessions[int](SimulatedClock())
    first, second = sessions.open(0, 0), sessions.open(1, 1)
    assert sessions.find(first) == 0  # used later than the second
    for number in range(SESSIONS_MAX - 1):
        sessions.open(number, number)
    assert sessions.find(second) is None
    assert sessions.find(first) == 0


def test_who_logs_in_again_and_again_logs_nobody_else_out() -> None:
    """CON-172: only the own sessions make room."""
    sessions = LoginSessions[str](SimulatedClock())
    bob = sessions.open("bob", "bob")
    tokens = [sessions.open("eve", "eve") for _ in range(SESSIONS_MAX + 1)]
    assert sessions.find(bob) == "bob"
    assert [token for token in tokens if sessions.find(token)] == tokens[-OWN_SESSIONS_MAX:]

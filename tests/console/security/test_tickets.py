"""One-time tickets of downloads (CON-142)."""

from barnabas_console.security.tickets import TICKET_MS, TICKETS_MAX, Tickets
from tests.support.simulated_clock import SimulatedClock

TARGET = "/api/v1/topics/orders/export?decode=json"


def test_a_ticket_opens_its_target_once() -> None:
    tickets = Tickets(SimulatedClock())
    ticket = tickets.issue(TARGET, "User:alice")
    assert tickets.redeem(ticket, TARGET, "User:alice")
    assert not tickets.redeem(ticket, TARGET, "User:alice")


def test_a_ticket_opens_nothing_else_and_for_nobody_else() -> None:
    tickets = Tickets(SimulatedClock())
    assert not tickets.redeem(tickets.issue(TARGET, "User:alice"), TARGET, "User:bob")
    assert not tickets.redeem(tickets.issue(TARGET, "User:alice"), "/api/v1/other", "User:alice")
    assert not tickets.redeem("guessed", TARGET, "User:alice")


def test_a_ticket_is_over_after_a_minute() -> None:
    clock = SimulatedClock()
    tickets = Tickets(clock)
    ticket = tickets.issue(TARGET, "User:alice")
    clock.advance(TICKET_MS)
    assert not tickets.redeem(ticket, TARGET, "User:alice")


def test_tickets_that_nobody_uses_are_bounded() -> None:
    tickets = Tickets(SimulatedClock())
    first = tickets.issue(TARGET, "User:0")
    for number in range(TICKETS_MAX):
        last = tickets.issue(TARGET, f"User:{number}")
    assert not tickets.redeem(first, TARGET, "User:0")
    assert tickets.redeem(last, TARGET, f"User:{number}")


def test_many_tickets_of_one_drive_out_only_his_own() -> None:
    tickets = Tickets(SimulatedClock())
    other = tickets.issue(TARGET, "User:bob")
    first = tickets.issue(TARGET, "User:eve")
    for _ in range(TICKETS_MAX):
        last = tickets.issue(TARGET, "User:eve")
    assert tickets.redeem(other, TARGET, "User:bob")
    assert not tickets.redeem(first, TARGET, "User:eve")
    assert tickets.redeem(last, TARGET, "User:eve")

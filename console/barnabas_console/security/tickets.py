"""One-time tickets for downloads: a link that a browser follows cannot carry our header (CON-142).

The page asks for a ticket by a call that carries the header, then follows the link with it. A
ticket is for one target and one login, holds for a minute, and is gone once it was shown.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Final

from barnabas_client.env import Clock

TICKET_MS: Final = 60_000
TICKETS_MAX: Final = 1_000
OWN_TICKETS_MAX: Final = 100
_TICKET_BYTES: Final = 24


@dataclass(frozen=True, slots=True)
class _Ticket:
    target: str
    holder: str
    until_ms: int


class Tickets:
    """The tickets that are out; the oldest makes room, a holder's own first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tickets: dict[str, _Ticket] = {}

    def issue(self, target: str, holder: str) -> str:
        """A ticket for a path with its query, for one holder."""
        own = [text for text, one in self._tickets.items() if one.holder == holder]
        if len(own) >= OWN_TICKETS_MAX:
            del self._tickets[own[0]]
        while len(self._tickets) >= TICKETS_MAX:
            del self._tickets[next(iter(self._tickets))]
        ticket = secrets.token_urlsafe(_TICKET_BYTES)
        until_ms = self._clock.monotonic_ms() + TICKET_MS
        self._tickets[ticket] = _Ticket(target, holder, until_ms)
        return ticket

    def redeem(self, ticket: str, target: str, holder: str) -> bool:
        """Whether it opens the target for the holder; it opens nothing afterwards."""
        found = self._tickets.pop(ticket, None)
        return (
            found is not None
            and found.target == target
            and found.holder == holder
            and self._clock.monotonic_ms() < found.until_ms
        )

"""Who is logged in: sessions by a random cookie, in memory, with an end (CON-140).

A session ends after 30 minutes without a request, after 12 hours at most, and with what it stands
for. Not here: checking credentials, which brokers do (`viewers.py`).

Invariants: tokens are kept as digests, so that what is in memory opens nothing; at most
`SESSIONS_MAX` sessions, and `OWN_SESSIONS_MAX` of one person, so that nobody logs others out by
logging in; the one that was used least lately makes room.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from barnabas_client.env import Clock

IDLE_MS: Final = 30 * 60_000
LIFETIME_MS: Final = 12 * 3_600_000
SESSIONS_MAX: Final = 500
OWN_SESSIONS_MAX: Final = 20
_TOKEN_BYTES: Final = 32
# A token is never longer than this; what is longer is not even hashed.
_TOKEN_LENGTH_MAX: Final = 64

T = TypeVar("T")


@dataclass(slots=True)
class _Session(Generic[T]):
    owner: T
    person: Hashable
    began_ms: int
    used_ms: int


class LoginSessions(Generic[T]):
    """The open sessions, each with what it stands for."""

    def __init__(self, clock: Clock, *, is_over: Callable[[T], bool] = lambda _: False) -> None:
        """`is_over` says of what a session stands for whether it has ended by itself."""
        self._clock = clock
        self._is_owner_over = is_over
        self._sessions: dict[bytes, _Session[T]] = {}  # least lately used first

    def open(self, owner: T, person: Hashable) -> str:
        """A new session of a person; returns its token, which is nowhere else."""
        self._end_old()
        own = [key for key, session in self._sessions.items() if session.person == person]
        for key in own[: max(0, len(own) - OWN_SESSIONS_MAX + 1)]:
            del self._sessions[key]
        while len(self._sessions) >= SESSIONS_MAX:
            del self._sessions[next(iter(self._sessions))]
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        now_ms = self._clock.monotonic_ms()
        self._sessions[_digest(token)] = _Session(owner, person, now_ms, now_ms)
        return token

    def find(self, token: str | None) -> T | None:
        """What an open session stands for; it counts as used."""
        if token is None or len(token) > _TOKEN_LENGTH_MAX:
            return None
        key = _digest(token)
        session = self._sessions.pop(key, None)
        if session is None or self._is_over(session):
            return None
        session.used_ms = self._clock.monotonic_ms()
        self._sessions[key] = session
        return session.owner

    def end(self, token: str | None) -> None:
        """Close a session."""
        if token is not None and len(token) <= _TOKEN_LENGTH_MAX:
            self._sessions.pop(_digest(token), None)

    def owners(self) -> list[T]:
        """What all open sessions stand for."""
        self._end_old()
        return [session.owner for session in self._sessions.values()]

    def _end_old(self) -> None:
        for key in [key for key, session in self._sessions.items() if self._is_over(session)]:
            del self._sessions[key]

    def _is_over(self, session: _Session[T]) -> bool:
        if self._is_owner_over(session.owner):
            return True
        now_ms = self._clock.monotonic_ms()
        return now_ms - session.used_ms >= IDLE_MS or now_ms - session.began_ms >= LIFETIME_MS


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="replace")).digest()

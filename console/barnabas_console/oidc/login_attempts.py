"""Log-ins that were begun with the provider and did not come back yet, as signed `state`s.

    state = base64url(time in ms, 8 bytes; lot, 16 bytes; HMAC-SHA-256 of browser, time and lot)

The nonce and the code verifier (PKCE) are HMACs of browser and state. So an attempt takes no memory
here: whoever begins many pushes nobody else's out.

Source: RFC 6749 section 10.12, RFC 7636, RFC 9700 section 2.1; CON-140.

Invariants: a state is good in the browser that began it alone, for `ATTEMPT_MS`, and once; no
value tells another one.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from typing import Final

from barnabas_client.env import Clock
from barnabas_protocol.web_tokens.web_token import encoded

ATTEMPT_MS: Final = 10 * 60_000
TAKEN_MAX: Final = 10_000
"""So many states are known as used; of older ones the provider alone knows that their code was."""
BROWSER_LENGTH_MAX: Final = 64
_BROWSER_BYTES: Final = 32
_HEAD_BYTES: Final = 8 + 16
_STATE_LENGTH: Final = (_HEAD_BYTES + 32) // 3 * 4 + 3


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginAttempt:
    """What goes to the provider and must come back from it."""

    state: str
    nonce: str
    code_verifier: str = field(repr=False)

    @property
    def code_challenge(self) -> str:
        """What the provider gets of the verifier: the method S256."""
        return encoded(hashlib.sha256(self.code_verifier.encode()).digest())


class LoginAttempts:
    """Begins attempts, and takes them back once."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._taken: dict[str, int] = {}  # until when, by state; the oldest first

    def browser(self, cookie: str | None) -> str:
        """What binds attempts to a browser: the cookie that it has, or a new one for it."""
        if cookie and len(cookie) <= BROWSER_LENGTH_MAX:
            return cookie
        return secrets.token_urlsafe(_BROWSER_BYTES)

    def begin(self, browser: str) -> LoginAttempt:
        """A new attempt of a browser."""
        head = self._clock.monotonic_ms().to_bytes(8) + secrets.token_bytes(16)
        return self._of(browser, encoded(head + self._mac("state", browser, encoded(head))))

    def take(self, browser: str | None, state: str) -> LoginAttempt | None:
        """The attempt that a browser comes back with; None where it is not its own, old or used."""
        if not browser or len(browser) > BROWSER_LENGTH_MAX or len(state) > _STATE_LENGTH:
            return None
        try:
            data = base64.b64decode(state + "=" * (-len(state) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            return None
        head, mac = data[:_HEAD_BYTES], data[_HEAD_BYTES:]
        if not hmac.compare_digest(mac, self._mac("state", browser, encoded(head))):
            return None
        now_ms = self._clock.monotonic_ms()
        until_ms = int.from_bytes(head[:8]) + ATTEMPT_MS
        # Written anew: the same bytes may be spelled in more than one way.
        state = encoded(data)
        if now_ms >= until_ms or state in self._taken:
            return None
        self._forget_old(now_ms)
        self._taken[state] = until_ms
        return self._of(browser, state)

    def _of(self, browser: str, state: str) -> LoginAttempt:
        return LoginAttempt(
            state=state,
            nonce=encoded(self._mac("nonce", browser, state)),
            code_verifier=encoded(self._mac("verifier", browser, state)),
        )

    def _mac(self, purpose: str, browser: str, text: str) -> bytes:
        told = "\0".join((purpose, browser, text)).encode(errors="replace")
        return hmac.digest(self._key, told, "sha256")

    def _forget_old(self, now_ms: int) -> None:
        for state in [state for state, until_ms in self._taken.items() if until_ms <= now_ms]:
            del self._taken[state]
        while len(self._taken) >= TAKEN_MAX:
            del self._taken[next(iter(self._taken))]

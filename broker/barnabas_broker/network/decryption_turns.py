"""What a turn of the loop may decrypt, of all connections together.

Each record costs some microseconds however little is in it, and one without data, such as a key
update, a tenth of a millisecond: a hundred connections that sent such at once held the loop up for
seconds. Whoever is told to wait has its reading resumed later, some connections in each turn, in
the order in which they came; each of those may read one record whatever the others take.

Source: SEC-8. The other direction is `tls_transport.EncryptionTurns`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

TURN_BYTES: Final = 2 * 1024 * 1024
RECORD_BYTES_MIN: Final = 2 * 1024
"""What a record counts at least: a thousand of the smallest are 6 ms."""
BLANK_BYTES: Final = 64 * 1024
"""What a record without data counts beside: thirty-two are 4 ms."""
RESUMED_MAX: Final = 32


class DecryptionTurns:
    """Shares what a turn of the loop may decrypt among the connections of a broker."""

    __slots__ = ("_is_scheduled", "_loop", "_waiting", "left")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.left = TURN_BYTES
        self._loop = loop
        self._waiting: deque[DecryptionTurn] = deque()
        self._is_scheduled = False

    def take(self, size: int) -> None:
        """Count bytes that are decrypted now."""
        self.left -= size
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._next_turn)

    def wait(self, turn: DecryptionTurn) -> None:
        """Have the reading of a connection resumed in its turn."""
        self._waiting.append(turn)

    def _next_turn(self) -> None:
        self._is_scheduled = False
        self.left = TURN_BYTES
        waiting = self._waiting
        for _ in range(min(len(waiting), RESUMED_MAX)):
            waiting.popleft().resume()
        if waiting:
            self.take(0)


class DecryptionTurn:
    """The turn of one connection: beside its end of TLS, which asks before each record."""

    __slots__ = ("_encrypted", "_has_resumed", "_is_waiting", "_resume", "_turns")

    def __init__(self, turns: DecryptionTurns, encrypted: Any, resume: Callable[[], None]) -> None:
        """`encrypted` is a `RecordwiseSSLObject`; `resume` has its data read soon."""
        self._turns = turns
        self._encrypted = encrypted
        self._resume = resume
        self._is_waiting = self._has_resumed = False
        encrypted.may_take, encrypted.was_blank = self.may_take, self.was_blank

    def may_take(self, size: int) -> bool:
        """Whether a record may be read now; where not, reading is resumed later."""
        turns = self._turns
        if turns.left > 0 or self._has_resumed:
            self._has_resumed = False
            turns.take(size if size > RECORD_BYTES_MIN else RECORD_BYTES_MIN)
            return True
        if not self._is_waiting:
            self._is_waiting = True
            turns.wait(self)
        return False

    def was_blank(self) -> None:
        """Count a record that was without data."""
        self._turns.take(BLANK_BYTES)

    def resume(self) -> None:
        """Go on."""
        self._is_waiting, self._has_resumed = False, True
        self._resume()

    def end(self) -> None:
        """Let go of the connection, which is lost."""
        self._encrypted.may_take = self._encrypted.was_blank = None

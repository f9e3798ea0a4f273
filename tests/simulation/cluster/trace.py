"""What happened in a run, as one number and, if asked for, in words."""

import zlib
from collections.abc import Callable

NOTES_MAX = 500


class Trace:
    """Every disk operation, every piece of network traffic, every answer to a client, in order.

    Only of use to who compares two runs, or reads one: others need not pay for it.
    """

    def __init__(
        self,
        now_seconds: Callable[[], float],
        *,
        keeps_words: bool = False,
        is_compared: bool = False,
    ) -> None:
        """`is_compared`: there is a fingerprint of all that happened."""
        self._now_seconds = now_seconds
        self._keeps_words = keeps_words
        self._is_compared = is_compared
        self._notes: list[tuple[float, tuple[object, ...]]] = []
        self._fingerprint = 0
        self.count = 0
        self.lines: list[str] = []

    @property
    def fingerprint(self) -> int:
        """A number for all that was noted."""
        assert self._is_compared
        self._fold()
        return self._fingerprint

    def note(self, *what: object) -> None:
        """Something that must happen again, at the same time, when the seed is repeated."""
        if not self._is_compared and not self._keeps_words:
            return
        now_seconds = self._now_seconds()
        self.count += 1
        if self._is_compared:
            self._notes.append((now_seconds, what))
            if len(self._notes) == NOTES_MAX:
                self._fold()
        if self._keeps_words:
            self.lines.append(f"{now_seconds:.6f} {what}")

    def _fold(self) -> None:
        """Words for many at once are much cheaper than for each."""
        self._fingerprint = zlib.crc32(repr(self._notes).encode(), self._fingerprint)
        self._notes.clear()

    def tell(self, *what: object) -> None:
        """Note a turn of the story: always kept in words."""
        self.note(*map(str, what))
        if not self._keeps_words:
            self.lines.append(f"{self._now_seconds():.3f} {' '.join(map(str, what))}")

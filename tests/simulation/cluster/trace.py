"""What happened in a run, as one number and, if asked for, in words."""

import zlib
from collections.abc import Callable


class Trace:
    """Every disk operation, every piece of network traffic, every answer to a client, in order."""

    def __init__(self, now_seconds: Callable[[], float], *, keeps_words: bool = False) -> None:
        self._now_seconds = now_seconds
        self._keeps_words = keeps_words
        self.fingerprint = 0
        self.count = 0
        self.lines: list[str] = []

    def note(self, *what: object) -> None:
        """Something that must happen again, at the same time, when the seed is repeated."""
        line = f"{self._now_seconds():.6f} {what}"
        self.count += 1
        self.fingerprint = zlib.crc32(line.encode(), self.fingerprint)
        if self._keeps_words:
            self.lines.append(line)

    def tell(self, *what: object) -> None:
        """Note a turn of the story: always kept in words."""
        self.note(*what)
        if not self._keeps_words:
            self.lines.append(f"{self._now_seconds():.3f} {' '.join(map(str, what))}")

"""Lines in the log about what peers do: so many of a kind in a while, and each of them one line.

Whoever can have a line written by connecting once could fill the log by connecting all the time.
What is left out is counted, and told with the next line of its kind. Texts of peers come in it
without characters that would begin another line.
"""

from __future__ import annotations

import logging
from typing import Final

from barnabas_broker.env.clock import Clock

LINES_MAX: Final = 10
LINES_PERIOD_MS: Final = 10_000
"""At most so many lines of a kind in so long a time."""


class LimitedLines:
    """What one module writes; its kinds are a few constants."""

    __slots__ = ("_clock", "_lines", "_logger")

    def __init__(self, logger: logging.Logger, clock: Clock) -> None:
        self._logger = logger
        self._clock = clock
        self._lines: dict[str, tuple[int, int]] = {}  # kind -> (period, lines in it)

    def write(
        self,
        kind: str,
        message: str,
        *arguments: object,
        level: int = logging.WARNING,
        error: BaseException | None = None,
    ) -> None:
        """Log a line unless there were too many of its kind."""
        period = self._clock.monotonic_ms() // LINES_PERIOD_MS
        last_period, count = self._lines.get(kind, (period, 0))
        if period != last_period:
            if count > LINES_MAX:
                self._logger.log(level, "%d more lines like the last: %s", count - LINES_MAX, kind)
            count = 0
        self._lines[kind] = (period, count + 1)
        if count < LINES_MAX:
            shown = [one_line(one) if isinstance(one, str) else one for one in arguments]
            self._logger.log(level, message, *shown, exc_info=error)


def one_line(text: str) -> str:
    """A text with escapes in place of what cannot be printed, as line breaks."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )

"""The log of a broker that is starting, held back: a start that fails is told in one line.

Shown as soon as the broker serves, and where the start takes long.
"""

from __future__ import annotations

import logging
import sys
from logging.handlers import MemoryHandler
from typing import Final

HELD_SECONDS: Final = 3.0
_RECORDS_MAX: Final = 10_000


class HeldLog(MemoryHandler):
    """A handler that shows nothing until `show`, or a record is that much younger."""

    def __init__(self, form: str) -> None:
        shown = logging.StreamHandler(sys.stderr)
        shown.setFormatter(logging.Formatter(form))
        super().__init__(_RECORDS_MAX, logging.CRITICAL + 1, shown, flushOnClose=False)
        self._is_shown = False

    def shouldFlush(self, record: logging.LogRecord) -> bool:
        """Whether to show what is held, this record included."""
        if record.created - self.buffer[0].created > HELD_SECONDS:
            self._is_shown = True
        return self._is_shown or super().shouldFlush(record)

    def show(self) -> None:
        """Show what is held, and all that comes from now on."""
        self._is_shown = True
        self.flush()

    def drop(self) -> None:
        """Forget what is held: it is told in another way."""
        self.buffer.clear()

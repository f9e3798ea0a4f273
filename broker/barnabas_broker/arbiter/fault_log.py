"""Logs a fault of the store once while it lasts: the store is read five times a second."""

from __future__ import annotations

import logging


class FaultLog:
    """The last fault that was logged; another one, or the same after a success, is logged again."""

    __slots__ = ("_logged", "_logger")

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._logged: str | None = None

    def report(self, what: str, reason: object) -> None:
        """Log a warning, unless it is the one that was logged last."""
        text = f"{what}: {reason}"
        if text != self._logged:
            self._logged = text
            self._logger.warning("%s", text)

    def clear(self) -> None:
        """Take note that the store works."""
        self._logged = None

"""A fault of the store that lasts, told once: to ask again five times a second is no news."""

from __future__ import annotations

import logging


class Complaint:
    """The last fault that was told; another one, or the same after a success, is told again."""

    __slots__ = ("_logger", "_told")

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._told: str | None = None

    def tell(self, what: str, reason: object) -> None:
        """Log a warning, unless it is the one that was logged last."""
        text = f"{what}: {reason}"
        if text != self._told:
            self._told = text
            self._logger.warning("%s", text)

    def is_over(self) -> None:
        """Take note that the store has done what it was asked for."""
        self._told = None

"""The audit log of the console: who changed what, and who read which records; a JSON line each.

Source: CON-145. Invariant: a line holds no key, no value and no header of a record.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any, Final

from barnabas_client.env import Clock
from barnabas_client.facts.moments import moment_text

logger = logging.getLogger(__name__)

TEXT_CHARACTERS_MAX: Final = 1_000
ITEMS_MAX: Final = 500


class AuditLog:
    """Writes the lines; without a place of its own they go to the log."""

    def __init__(self, clock: Clock, write: Callable[[str], None] | None = None) -> None:
        self._clock = clock
        self._write = write or logger.info

    def add(self, act: str, principal: str, address: str | None, facts: dict[str, Any]) -> None:
        """Write a line; texts and lists of requests are cut."""
        line = {
            "time": moment_text(self._clock.wall_ms()),
            "act": act,
            "principal": principal,
            "address": address,
            **{name: _short(value) for name, value in facts.items()},
        }
        self._write(json.dumps(line, ensure_ascii=True, default=str))


def _short(value: Any) -> Any:
    if isinstance(value, str):
        return value[:TEXT_CHARACTERS_MAX]
    if isinstance(value, list):
        return [_short(one) for one in value[:ITEMS_MAX]]
    return value

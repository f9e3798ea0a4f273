"""How the durable changes of a shard's commands are taken back, the newest first.

A shard changes its state when a command runs, before the records are in the log (`pipeline.py`).
Whoever owns a piece of that state notes with each change what takes it back. Not here: when that
is asked for. Invariant: rolling back to a sequence number calls what was noted under that number
and later ones, in the reverse order, each once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any


class UndoJournal:
    """What takes the changes of commands back, until they are committed."""

    def __init__(self) -> None:
        self._sequence = 0
        self._is_kept = False
        self._notes: deque[tuple[int, Callable[[], object]]] = deque()

    def start(self) -> None:
        """Keep what is noted from now on; replay does not need it."""
        self._is_kept = True

    def note(self, undo: Callable[..., object], *arguments: Any) -> None:
        """Call this if the command that runs now is taken back."""
        if self._is_kept:
            self._notes.append((self._sequence, partial(undo, *arguments)))

    def begin(self, sequence: int) -> None:
        """Note changes under this number from now on."""
        self._sequence = sequence

    def committed(self, sequence: int) -> None:
        """Forget how to undo the changes up to this number."""
        notes = self._notes
        while notes and notes[0][0] <= sequence:
            notes.popleft()

    def roll_back(self, sequence: int) -> None:
        """Undo the changes from this number on, the newest first."""
        notes = self._notes
        while notes and notes[-1][0] >= sequence:
            notes.pop()[1]()

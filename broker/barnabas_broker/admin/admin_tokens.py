"""The bearer tokens of the admin HTTP: a file, one token a line, read anew when it changes.

Several lines are for a change of tokens: the new one is added, then the old one taken away. A file
that cannot be read lets nobody in.
"""

from __future__ import annotations

import hmac
import logging
from pathlib import Path
from typing import Final

logger = logging.getLogger(__name__)

TOKEN_LENGTH_MIN: Final = 16
"""Shorter ones can be guessed: they are passed over."""
TOKENS_MAX: Final = 16
FILE_BYTES_MAX: Final = 64 * 1024

_Version = tuple[int, int, int]


class TokenFile:
    """The tokens of one file, as it is now."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._version: _Version | None = None
        self._tokens: tuple[bytes, ...] = ()
        self._complaint = ""

    def has(self, token: str) -> bool:
        """Whether it is one of the tokens; looks at the file, in whatever thread it is called."""
        self._refresh()
        given = token.encode(errors="surrogateescape")
        # All of them, in the same time whatever is found.
        found = [hmac.compare_digest(given, known) for known in self._tokens]
        return any(found)

    def _refresh(self) -> None:
        try:
            state = self._path.stat()
            version = state.st_mtime_ns, state.st_ino, state.st_size
            if version == self._version:
                return
            with self._path.open("rb") as file:
                lines = file.read(FILE_BYTES_MAX).split(b"\n")
        except OSError as error:
            self._version, self._tokens = None, ()
            self._complain(f"cannot be read: {error.strerror}")
            return
        found = [line.strip() for line in lines if line.strip()]
        usable = [token for token in found if len(token) >= TOKEN_LENGTH_MIN][:TOKENS_MAX]
        self._version, self._tokens = version, tuple(usable)
        if len(usable) < len(found):
            self._complain(
                f"has tokens of less than {TOKEN_LENGTH_MIN} characters, or more than {TOKENS_MAX}"
            )
        else:
            self._complaint = ""

    def _complain(self, complaint: str) -> None:
        if complaint != self._complaint:
            self._complaint = complaint
            logger.warning("admin.http.token.file: %s %s", self._path, complaint)

"""Writes the lines of the audit log in a thread: to a file of its own, or to the logger.

Nothing waits for a line: a disk that is slow or full costs lines, which are counted. Not here:
which events get one (`audit_log`).
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from logging.handlers import RotatingFileHandler
from typing import Any, Final, Protocol

from barnabas_broker.env.disk import Disk
from barnabas_broker.security.audit.audit_log import AUDIT_LOGGER, AuditLog, WaitingLine

logger = logging.getLogger(__name__)
audit_logger: Final = logging.getLogger(AUDIT_LOGGER)
FILES_KEPT: Final = 4
"""Full files that are kept beside the one that is written."""
PAUSE_SECONDS: Final = 1.0
"""Between two looks at what was counted."""
_CLOSE_SECONDS_MAX: Final = 2.0


class LineSink(Protocol):
    """Where lines go; blocks."""

    def write(self, line: str) -> None:
        """Write one line. Raises: OSError."""
        ...

    def close(self) -> None:
        """Write nothing more."""
        ...


class LoggerSink:
    """Lines go where the log of the broker goes, whatever levels its other loggers have."""

    def __init__(self) -> None:
        audit_logger.setLevel(logging.INFO)

    def write(self, line: str) -> None:
        """Log one line."""
        audit_logger.info(line)

    def close(self) -> None:
        """Nothing to close."""


class FileSink:
    """Lines go to a file that only this user reads; when it is full, another is begun."""

    def __init__(self, path: str, bytes_max: int) -> None:
        """Make it ready. Raises: OSError."""
        self._handler = _RaisingHandler(path, maxBytes=bytes_max, backupCount=FILES_KEPT)
        self._handler.setFormatter(logging.Formatter("%(message)s"))

    def write(self, line: str) -> None:
        """Append one line. Raises: OSError."""
        self._handler.emit(logging.makeLogRecord({"msg": line}))

    def close(self) -> None:
        """Close the file."""
        self._handler.close()


class _RaisingHandler(RotatingFileHandler):
    """Tells of errors, which the logging module would print."""

    def _open(self) -> Any:
        descriptor = os.open(self.baseFilename, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        return os.fdopen(descriptor, "a", encoding="utf-8")

    def handleError(self, record: logging.LogRecord) -> None:
        raise


class AuditWriter:
    """The task that writes lines soon after they are there, and what was counted each second."""

    def __init__(self, log: AuditLog, disk: Disk, sink: LineSink) -> None:
        self._log = log
        self._disk = disk
        self._sink = sink
        self._wake = asyncio.Event()
        self._is_closing = False
        self._has_failed = False
        self._task: asyncio.Task[None] | None = None
        log.on_waiting = self._wake.set

    def start(self) -> None:
        """Begin to write."""
        self._task = asyncio.create_task(self._run(), name="audit")

    async def close(self) -> None:
        """Write what there is, then stop; safe without a start and twice."""
        self._is_closing = True
        self._wake.set()
        task, self._task = self._task, None
        if task is not None:
            _, late = await asyncio.wait((task,), timeout=_CLOSE_SECONDS_MAX)
            if late:
                task.cancel()
                await asyncio.wait((task,))
        self._sink.close()

    async def _run(self) -> None:
        has_more = False
        while True:
            # Without something to tell nothing wakes up; else once a second.
            with suppress(TimeoutError):
                async with asyncio.timeout(PAUSE_SECONDS if has_more else None):
                    await self._wake.wait()
            self._wake.clear()
            if self._is_closing:
                self._log.sweep()
            lines = self._log.take()
            if lines:
                await self._write(lines)
            if self._is_closing:
                return
            has_more = self._log.sweep()

    async def _write(self, lines: Sequence[WaitingLine]) -> None:
        try:
            written, error = await self._disk.run(self._written, lines)
        except OSError as stopped:  # the disk takes no work any more
            written, error = 0, stopped
        self._log.lost(lines[written:])
        if error is not None and not self._has_failed:
            logger.error("lines of the audit log are lost: %s", error)
        self._has_failed = error is not None

    def _written(self, lines: Sequence[WaitingLine]) -> tuple[int, OSError | None]:
        """How many lines were written, and why no more; in a thread."""
        for index, line in enumerate(lines):
            try:
                self._sink.write(self._log.text_of(line))
            except OSError as error:
                return index, error
        return len(lines), None

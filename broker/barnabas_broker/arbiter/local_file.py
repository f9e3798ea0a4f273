"""The arbiter in one local file: for one machine.

A swap holds a lock on a second file, compares the revision in the first and replaces it by an
atomic rename after an fsync, so that a reader sees the old record or the new one and a crash leaves
one of the two. The format is in `docs/formats/arbiter.md`. Not for file systems shared by machines:
their locks and renames promise less.
"""

from __future__ import annotations

import asyncio
import json
import logging
import posixpath
from collections.abc import AsyncIterator

from barnabas_broker.arbiter.arbiter import (
    ArbiterError,
    ArbiterRecord,
    Stored,
    SwapOutcome,
)
from barnabas_broker.arbiter.fault_log import FaultLog
from barnabas_broker.arbiter.polling import changes
from barnabas_broker.arbiter.record_json import FORMAT_VERSION, document_of, parse_document
from barnabas_broker.env.clock import Clock
from barnabas_broker.env.disk import Disk

logger = logging.getLogger(__name__)

NO_RECORD = Stored(None, 0)
# A swap takes a few milliseconds; a lock held for longer than this is somebody's fault.
LOCK_WAIT_MS_MAX = 2000
_LOCK_RETRY_MS = 5


class LocalFileArbiter:
    """One file; its revision is the token."""

    __slots__ = ("_clock", "_disk", "_faults", "_is_unsafe", "_path", "_poll_interval_ms")

    def __init__(self, disk: Disk, clock: Clock, path: str, poll_interval_ms: int = 1000) -> None:
        self._disk = disk
        self._clock = clock
        self._path = path
        self._poll_interval_ms = poll_interval_ms
        # A swap has failed, perhaps after its rename: what is seen may be lost by a crash.
        self._is_unsafe = False
        self._faults = FaultLog(logger)

    async def read(self) -> Stored:
        """The record in the file, none if there is no file. Raises: ArbiterError."""
        return await self._disk.run(self._read)

    async def compare_and_swap(self, expected_token: int, record: ArbiterRecord) -> SwapOutcome:
        """Replace the file if its revision is the one expected."""
        deadline_ms = self._clock.monotonic_ms() + LOCK_WAIT_MS_MAX
        try:
            while (outcome := await self._disk.run(self._try, expected_token, record)) is None:
                if self._clock.monotonic_ms() >= deadline_ms:
                    raise ArbiterError(f"{self._path}.lock stays locked")
                await asyncio.sleep(_LOCK_RETRY_MS / 1000)
        except (OSError, ArbiterError) as error:
            self._faults.report("the arbiter's file", error)
            return SwapOutcome.UNKNOWN
        self._faults.clear()
        return outcome

    def watch(self) -> AsyncIterator[Stored]:
        """The record now and after each change, looked for from time to time."""
        return changes(self.read, self._poll_interval_ms)

    async def close(self) -> None:
        """Nothing stays open between two calls."""

    def _try(self, expected_token: int, record: ArbiterRecord) -> SwapOutcome | None:
        """Swap under the lock; None if somebody else holds it.

        The thread that writes takes the lock and lets it go: nobody else can do so too early.
        """
        try:
            lock = self._disk.lock(f"{self._path}.lock")
        except BlockingIOError:
            return None
        try:
            return self._swap(expected_token, record)
        finally:
            lock.close()

    def _read(self) -> Stored:
        try:
            if self._is_unsafe:
                self._disk.sync_directory(posixpath.dirname(self._path))
                self._is_unsafe = False
            if not self._disk.exists(self._path):
                return NO_RECORD
            data = self._disk.read_bytes(self._path)
        except OSError as error:
            raise ArbiterError(f"{self._path} cannot be read: {error}") from error
        return decode(data)

    def _swap(self, expected_token: int, record: ArbiterRecord) -> SwapOutcome:
        if self._read().token != expected_token:
            return SwapOutcome.CONFLICT
        try:
            self._disk.write_atomically(self._path, encode(Stored(record, expected_token + 1)))
        except OSError:
            self._is_unsafe = True
            raise
        return SwapOutcome.STORED


def encode(stored: Stored) -> bytes:
    """The content of the file."""
    assert stored.record is not None, "the file holds a record from its first write on"
    document = {
        "version": FORMAT_VERSION,
        "revision": stored.token,
        **document_of(stored.record),
    }
    return json.dumps(document, indent=2).encode() + b"\n"


def decode(data: bytes) -> Stored:
    """The record in the content of the file. Raises: ArbiterError if it is not one."""
    document, record = parse_document(data)
    try:
        return Stored(record, int(document["revision"]))
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise ArbiterError(f"not an arbiter record: {error!r}") from error

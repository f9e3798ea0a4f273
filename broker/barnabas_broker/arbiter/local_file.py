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
from collections.abc import AsyncIterator
from typing import Any

from barnabas_broker.arbiter.arbiter import (
    ArbiterError,
    ArbiterRecord,
    Leader,
    Member,
    Stored,
    SwapOutcome,
)
from barnabas_broker.env.clock import Clock
from barnabas_broker.env.disk import Closeable, Disk
from barnabas_protocol.ids import uuid_from_text, uuid_to_text

logger = logging.getLogger(__name__)

FORMAT_VERSION = 1
NO_RECORD = Stored(None, 0)
# A swap takes a few milliseconds; a lock held for longer than this is somebody's fault.
LOCK_WAIT_MS_MAX = 2000
_LOCK_RETRY_MS = 5


class LocalFileArbiter:
    """One file; its revision is the token."""

    __slots__ = ("_clock", "_disk", "_path", "_poll_interval_ms")

    def __init__(self, disk: Disk, clock: Clock, path: str, poll_interval_ms: int = 1000) -> None:
        self._disk = disk
        self._clock = clock
        self._path = path
        self._poll_interval_ms = poll_interval_ms

    async def read(self) -> Stored:
        """The record in the file, none if there is no file. Raises: ArbiterError."""
        return await self._disk.run(self._read)

    async def compare_and_swap(self, expected_token: int, record: ArbiterRecord) -> SwapOutcome:
        """Replace the file if its revision is the one expected."""
        try:
            lock = await self._lock()
        except (OSError, ArbiterError) as error:
            logger.warning("the arbiter's lock: %s", error)
            return SwapOutcome.UNKNOWN
        try:
            return await self._disk.run(self._swap, expected_token, record)
        except (OSError, ArbiterError) as error:
            logger.warning("the arbiter's file: %s", error)
            return SwapOutcome.UNKNOWN
        finally:
            lock.close()

    async def watch(self) -> AsyncIterator[Stored]:
        """The record now and after each change, looked for from time to time."""
        seen: Stored | None = None
        while True:
            stored = await self.read()
            if stored != seen:
                seen = stored
                yield stored
            await asyncio.sleep(self._poll_interval_ms / 1000)

    async def _lock(self) -> Closeable:
        deadline_ms = self._clock.monotonic_ms() + LOCK_WAIT_MS_MAX
        while True:
            try:
                return self._disk.lock(f"{self._path}.lock")
            except BlockingIOError:
                if self._clock.monotonic_ms() >= deadline_ms:
                    raise ArbiterError(f"{self._path}.lock stays locked") from None
            await asyncio.sleep(_LOCK_RETRY_MS / 1000)

    def _read(self) -> Stored:
        try:
            if not self._disk.exists(self._path):
                return NO_RECORD
            data = self._disk.read_bytes(self._path)
        except OSError as error:
            raise ArbiterError(f"{self._path} cannot be read: {error}") from error
        return decode(data)

    def _swap(self, expected_token: int, record: ArbiterRecord) -> SwapOutcome:
        if self._read().token != expected_token:
            return SwapOutcome.CONFLICT
        self._disk.write_atomically(self._path, encode(Stored(record, expected_token + 1)))
        return SwapOutcome.STORED


def encode(stored: Stored) -> bytes:
    """The content of the file."""
    record = stored.record
    assert record is not None, "the file holds a record from its first write on"
    leader = record.leader
    document = {
        "version": FORMAT_VERSION,
        "revision": stored.token,
        "cluster_id": record.cluster_id,
        "controller_epoch": record.controller_epoch,
        "leader": None if leader is None else leader._asdict(),
        "members": [
            {"node_id": member.node_id, "directory_id": uuid_to_text(member.directory_id)}
            for member in record.members
        ],
        "renewed_ms": record.renewed_ms,
    }
    return json.dumps(document, indent=2).encode() + b"\n"


def decode(data: bytes) -> Stored:
    """The record in the content of the file. Raises: ArbiterError if it is not one."""
    try:
        document: Any = json.loads(data)
        if document["version"] != FORMAT_VERSION:
            raise ValueError(f"version {document['version']}")
        leader = document["leader"]
        record = ArbiterRecord(
            cluster_id=str(document["cluster_id"]),
            controller_epoch=int(document["controller_epoch"]),
            leader=leader
            and Leader(int(leader["node_id"]), str(leader["host"]), int(leader["port"])),
            members=tuple(
                Member(int(member["node_id"]), uuid_from_text(member["directory_id"]))
                for member in document["members"]
            ),
            renewed_ms=int(document["renewed_ms"]),
        )
        return Stored(record, int(document["revision"]))
    except (ValueError, KeyError, TypeError) as error:
        raise ArbiterError(f"not an arbiter record: {error!r}") from error

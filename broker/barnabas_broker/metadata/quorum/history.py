"""Which history of a cluster's metadata a node has: ids that no second founding can have.

A cluster id may be given by a setting, and epochs and offsets begin anew with a new log. So the
founder of a cluster gives its metadata a history id, which is in the arbiter's record and, once a
node has seen it, beside its log. A recovery by `barnabas cluster recover` begins a new history that
names those it goes on from; nothing else may lead a node from one history to another.

Source: rule 10 of the control plane (`docs/formats/arbiter.md`); the file is described in
`docs/formats/metadata.md`. Invariant: a node with records takes none of a history that does not
name its own.
"""

from __future__ import annotations

import hashlib
from typing import Final

from barnabas_broker.env.disk import Disk
from barnabas_broker.metadata.metadata_log import MetadataLogError
from barnabas_protocol.ids import uuid_from_text, uuid_to_text

HISTORY_FILE: Final = "metadata-history"
# How many histories a record names: whoever was away for more recoveries than that starts anew.
HISTORIES_MAX: Final = 32
_VERSION: Final = "0"
_ID_BYTES: Final = 16


class ForeignHistoryError(Exception):
    """The arbiter's record is of a history of this cluster that this node does not belong to."""


class History:
    """The histories of this node's copy of the metadata log, the current one first; none: blank."""

    __slots__ = ("_directory", "_disk", "ids")

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self.ids: tuple[bytes, ...] = ()

    @property
    def path(self) -> str:
        """Where the ids are."""
        return f"{self._directory}/{HISTORY_FILE}"

    def read(self, cluster_id: str, log_end_offset: int) -> None:
        """Read what is known. Raises: MetadataLogError if the file makes no sense; OSError."""
        if not self._disk.exists(self.path):
            # A log that a release without histories has begun: all its copies get the same id.
            self.ids = (first_history(cluster_id),) if log_end_offset > 0 else ()
            return
        lines = bytes(self._disk.read_bytes(self.path)).decode("ascii", "replace").split()
        try:
            if lines[:1] != [_VERSION] or len(lines) < 2:
                raise ValueError(lines)
            self.ids = tuple(map(uuid_from_text, lines[1:]))
        except ValueError as error:
            raise MetadataLogError(f"{self.path} is no list of histories: {error}") from error

    async def write(self, ids: tuple[bytes, ...]) -> None:
        """Return once these are the histories, on the disk's surface. Raises: OSError."""
        text = "\n".join((_VERSION, *map(uuid_to_text, ids)))
        await self._disk.run(self._disk.write_atomically, self.path, f"{text}\n".encode())
        self.ids = ids

    def is_written(self) -> bool:
        """Whether the file is there."""
        return self._disk.exists(self.path)


def first_history(cluster_id: str) -> bytes:
    """The history of a cluster that is older than histories."""
    return _id("first", cluster_id)


def new_history(cluster_id: str, directory_id: bytes, now_ms: int, earlier: bytes = b"") -> bytes:
    """The id of a history that begins now on a disk."""
    return _id("new", cluster_id, directory_id.hex(), str(now_ms), earlier.hex())


def _id(*parts: str) -> bytes:
    return hashlib.sha256("\n".join(parts).encode()).digest()[:_ID_BYTES]

"""The highest controller epoch that this node has promised, in a file of the metadata partition.

Source: rule 2 of the control plane (`docs/formats/arbiter.md`); the file is described in
`docs/formats/metadata.md`. Invariant: once `write` has returned, no crash takes the promise back.
"""

from __future__ import annotations

import posixpath
from typing import Final

from barnabas_broker.env.disk import Disk
from barnabas_broker.metadata.metadata_log import MetadataLogError

PROMISE_FILE: Final = "promised-controller-epoch"
_VERSION: Final = "0"


class PromiseFile:
    """One number, replaced as a whole."""

    __slots__ = ("_directory", "_disk", "_is_directory_durable")

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._is_directory_durable = False

    @property
    def path(self) -> str:
        """Where the promise is."""
        return f"{self._directory}/{PROMISE_FILE}"

    def read(self) -> int:
        """The promised epoch, 0 if there is none.

        Raises: MetadataLogError if the file makes no sense: no promise may be forgotten; OSError.
        """
        if not self._disk.exists(self.path):
            return 0
        lines = bytes(self._disk.read_bytes(self.path)).split()
        if len(lines) != 2 or lines[0] != _VERSION.encode() or not lines[1].isdigit():
            raise MetadataLogError(f"{self.path} is not a promise: {lines!r}")
        return int(lines[1])

    async def write(self, controller_epoch: int) -> None:
        """Return once the promise is on the disk's surface. Raises: OSError."""
        await self._disk.run(self._write, controller_epoch)

    def _write(self, controller_epoch: int) -> None:
        if not self._is_directory_durable:
            # A new partition directory may still be lost with all that is in it.
            self._disk.sync_directory(posixpath.dirname(self._directory))
            self._is_directory_durable = True
        self._disk.write_atomically(self.path, f"{_VERSION}\n{controller_epoch}\n".encode())

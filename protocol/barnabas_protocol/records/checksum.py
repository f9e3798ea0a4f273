"""CRC-32C (Castagnoli), the checksum of record batches and producer snapshots.

The function is the `crc32c` package's, taken from its extension module. The package itself reads
its own version from the installed metadata when imported, and that drags in half of the standard
library: more than a tenth of the processor time of a broker's start.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import cast

Checksum = Callable[[bytes | bytearray | memoryview], int]


def _load() -> Checksum:
    package = PathFinder.find_spec("crc32c")
    folders = None if package is None else package.submodule_search_locations
    extension = None if folders is None else PathFinder.find_spec("crc32c._crc32c", folders)
    if extension is None or extension.loader is None:
        # Installed in a way that has no folders, such as an archive.
        from crc32c import crc32c as whole

        return cast(Checksum, whole)
    module = module_from_spec(extension)
    extension.loader.exec_module(module)
    return cast(Checksum, module.crc32c)


crc32c = _load()

"""Watches the room in the log directories, so that a full disk is a state and not a death.

Looks every second, and each time that 32 MiB were written. An append that finds no room all the
same (another program fills the volume, a quota) puts its directory into the worst state at once.
What a state means is in `disk_room`; produce, fetchers and placement read the state here.

Not here: retention, which runs at once when a state gets worse (`log_tasks`).
Source: VOL-4, `docs/decisions/0016-a-full-disk-is-a-state.md`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from barnabas_broker.log.ballast import ballast_bytes, is_out_of_space
from barnabas_broker.log.manager.disk_room import Reserve, Room, room_of

if TYPE_CHECKING:
    from barnabas_broker.env.clock import Clock
    from barnabas_broker.env.disk import Disk
    from barnabas_broker.log.manager.log_directory import LogDirectory

_logger = logging.getLogger(__name__)

LOOK_MS: Final = 1000
LOOK_BYTES: Final = 32 * 1024 * 1024
START_BYTES: Final = 1024 * 1024
"""Enough for a registration, checkpoints and the records of an election."""
REFUSED_WRITE_MS: Final = 5000
"""For so long after a write found no room, what the file system says is not believed."""


@dataclass(slots=True, kw_only=True)
class DirectoryRoom:
    """What is known of one directory's volume."""

    room: Room = Room.ENOUGH
    free_bytes: int = 0
    total_bytes: int = 0
    reserve_bytes: int = 0
    refused_until_ms: int = 0


class DiskGuard:
    """The room of all directories of a broker. Used from the loop."""

    def __init__(
        self, disk: Disk, clock: Clock, reserve: Reserve, directories: list[LogDirectory]
    ) -> None:
        self._disk = disk
        self._loop: asyncio.AbstractEventLoop | None = None
        self._clock = clock
        self._reserve = reserve
        self._directories = directories
        self._rooms = {directory.path: DirectoryRoom() for directory in directories}
        self._wake = asyncio.Event()
        for directory in directories:
            directory.ballast.on_given_up = partial(self._ballast_given_up, directory)
        # Whether producing is refused anywhere: all that an append looks at while there is room.
        self.is_any_full = False
        self.on_change: list[Callable[[LogDirectory, Room], None]] = []  # with the room before

    def of(self, directory: LogDirectory) -> DirectoryRoom:
        """What is known of a directory's volume."""
        return self._rooms[directory.path]

    def room(self, directory: LogDirectory) -> Room:
        """How much room a directory has."""
        return self._rooms[directory.path].room

    def why_full(self, directory: LogDirectory) -> str:
        """The message of the error that a refused producer gets."""
        known = self._rooms[directory.path]
        return (
            f"{directory.path} has {known.free_bytes} bytes free of {known.total_bytes}, and keeps "
            f"{known.reserve_bytes} in reserve: nothing is taken before there is room"
        )

    @property
    def cordoned(self) -> list[bytes]:
        """The ids of the directories that shall get no more replicas."""
        return [
            directory.directory_id
            for directory in self._directories
            if not directory.is_offline and self.room(directory) >= Room.LOW
        ]

    async def until_there_is_room(self) -> None:
        """Wait until each directory has room for what a start writes, or a ballast.

        The broker lives meanwhile, and goes on by itself: nobody need start it again.
        """
        for directory in self._directories:
            is_logged = False
            while not directory.is_offline and not directory.ballast.is_held:
                try:
                    free, _ = await self._disk.run(self._read_room, directory.path)
                except OSError as error:
                    _logger.warning("%s: free space cannot be read: %s", directory.path, error)
                    break
                if free >= START_BYTES:
                    break
                if not is_logged:
                    is_logged = True
                    _logger.warning(
                        "%s has %d bytes free: the start waits until it has %d",
                        directory.path,
                        free,
                        START_BYTES,
                    )
                await asyncio.sleep(LOOK_MS / 1000)

    def look_soon(self) -> None:
        """Look now: much was written."""
        self._wake.set()

    async def run(self, is_stopping: Callable[[], bool]) -> None:
        """Look from time to time, until the broker stops."""
        self._loop = asyncio.get_running_loop()
        while not is_stopping():
            try:
                await self.look()
            except Exception:
                _logger.exception("a round of the disk guard failed")
            try:
                async with asyncio.timeout(LOOK_MS / 1000):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()

    async def look(self) -> None:
        """Read the free space of the file systems, and act on changes."""
        for directory in self._directories:
            if directory.is_offline:
                continue
            try:
                room = await self._room_now(directory)
            except OSError as error:
                _logger.warning("%s: free space cannot be read: %s", directory.path, error)
                continue
            self._change(directory, room)
        self._count()

    async def _room_now(self, directory: LogDirectory) -> Room:
        """Read the free space, and hold the ballast if there is enough. Raises: OSError.

        What the ballast lacks does not count as free: else giving it up would look like room.
        """
        known = self._rooms[directory.path]
        free, total = await self._disk.run(self._read_room, directory.path)
        reserve = self._reserve.of(total)
        known.free_bytes, known.total_bytes, known.reserve_bytes = free, total, reserve
        missing = 0 if directory.ballast.is_held else ballast_bytes(reserve)
        room = room_of(max(free - missing, 0), reserve, known.room)
        if self._clock.monotonic_ms() < known.refused_until_ms:
            return Room.CRITICAL
        if missing and room < Room.CRITICAL:
            try:
                await self._disk.run(directory.ballast.make, missing)
            except OSError as error:
                if not is_out_of_space(error):
                    _logger.warning("%s cannot be made: %s", directory.ballast.path, error)
                return room
            known.free_bytes -= missing
        return room

    def write_refused(self, directory: LogDirectory) -> None:
        """Take note of a write that found no room, whatever the file system says."""
        known = self._rooms[directory.path]
        known.refused_until_ms = self._clock.monotonic_ms() + REFUSED_WRITE_MS
        self._change(directory, Room.CRITICAL)
        self._count()

    def _ballast_given_up(self, directory: LogDirectory) -> None:
        """In any thread: nobody else shall take that room."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self.write_refused, directory)

    def _read_room(self, path: str) -> tuple[int, int]:
        return self._disk.free_bytes(path), self._disk.total_bytes(path)

    def _count(self) -> None:
        self.is_any_full = any(known.room >= Room.FULL for known in self._rooms.values())

    def _change(self, directory: LogDirectory, room: Room) -> None:
        known = self._rooms[directory.path]
        before, known.room = known.room, room
        if room == before:
            return
        _logger.log(
            logging.WARNING if room else logging.INFO,
            "disk guard: %s is %s, was %s: %d bytes free of %d, reserve %d",
            directory.path,
            room.name,
            before.name,
            known.free_bytes,
            known.total_bytes,
            known.reserve_bytes,
        )
        self._count()
        for changed in self.on_change:
            changed(directory, before)

"""The files that deletion and compaction leave behind when they are interrupted.

Blocks; for a thread, before the log is loaded. Source: formats.md section 5; REC-10.
Invariant: interrupted at any point and run again, this ends with the old segments or the new ones,
never with both or neither.
"""

from __future__ import annotations

import contextlib
import logging

from barnabas_broker.env.disk import Disk
from barnabas_broker.log.batch_scan import scan_batches
from barnabas_broker.log.errors import CorruptionError
from barnabas_broker.log.layout import (
    CLEANED_FILE_SUFFIX,
    DELETED_FILE_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_FILE_SUFFIX,
    parse_offset,
    segment_file_name,
)

_logger = logging.getLogger(__name__)


def finish_interrupted_work(disk: Disk, directory: str) -> list[str]:
    """Remove or complete what was under way; returns the names of the files that remain.

    `.deleted` and `.cleaned` files go, but for those of a segment whose log has its own name: a
    power cut has undone a part of its renaming, so it is there as before. `.swap` files at or above
    the lowest `.cleaned` base offset belong to an unfinished split and go too; the others are
    complete and replace the segments that they cover. Raises: OSError.
    """
    names = disk.list_directory(directory)
    marked = (DELETED_FILE_SUFFIX, CLEANED_FILE_SUFFIX, SWAP_FILE_SUFFIX)
    if not any(name.endswith(marked) for name in names):
        return names
    if _undo_deletions(disk, directory, names):
        names = disk.list_directory(directory)
    cleaned = [_offset(name) for name in names if name.endswith(CLEANED_FILE_SUFFIX)]
    swap_limit = min(cleaned, default=None)
    swaps: list[str] = []
    # A `.log.deleted` goes last: while it is there, what else is `.deleted` is of the same segment,
    # and not of the one that has taken its place.
    for name in sorted(names, key=lambda name: name.endswith(LOG_SUFFIX + DELETED_FILE_SUFFIX)):
        if name.endswith(SWAP_FILE_SUFFIX):
            if swap_limit is None or _offset(name) < swap_limit:
                swaps.append(name)
            else:
                _remove(disk, f"{directory}/{name}")
        elif name.endswith(marked):
            _remove(disk, f"{directory}/{name}")
    if swaps:
        _finish_swaps(disk, directory, swaps)
    return disk.list_directory(directory)


def _undo_deletions(disk: Disk, directory: str, names: list[str]) -> bool:
    """Give the files of segments that are still there their names back; returns if there are any.

    The log has its name, and none with the other: else it is one that has taken its place.
    """
    there = set(names)
    back = [
        name.removesuffix(DELETED_FILE_SUFFIX)
        for name in names
        if name.endswith(DELETED_FILE_SUFFIX)
        and name.removesuffix(DELETED_FILE_SUFFIX) not in there
        and (offset := parse_offset(name)) is not None
        and (log_name := segment_file_name(offset, LOG_SUFFIX)) in there
        and log_name + DELETED_FILE_SUFFIX not in there
    ]
    for name in back:
        disk.rename(f"{directory}/{name}{DELETED_FILE_SUFFIX}", f"{directory}/{name}")
        _logger.info("%s/%s is in use again: its segment was not deleted", directory, name)
    return bool(back)


def _remove(disk: Disk, path: str) -> None:
    """Remove a file that whoever had it may be removing as well, where a log is opened again."""
    with contextlib.suppress(FileNotFoundError):
        disk.remove(path)


def remove_segment_files(disk: Disk, directory: str, base_offset: int) -> None:
    """Remove a segment's files, the log last, so that none is left without it. Raises: OSError."""
    for suffix in reversed(SEGMENT_SUFFIXES):
        path = f"{directory}/{segment_file_name(base_offset, suffix)}"
        if disk.exists(path):
            disk.remove(path)


def _finish_swaps(disk: Disk, directory: str, swaps: list[str]) -> None:
    """Remove the segments that complete `.swap` segments cover, then give those their names."""
    swap_logs = {_offset(name) for name in swaps if name.endswith(LOG_SUFFIX + SWAP_FILE_SUFFIX)}
    for base_offset in sorted(swap_logs):
        end_offset = _end_offset(disk, directory, base_offset)
        for name in disk.list_directory(directory):
            offset = parse_offset(name)
            if (
                name.endswith(SEGMENT_SUFFIXES)
                and offset is not None
                and base_offset <= offset < max(end_offset, base_offset + 1)
            ):
                disk.remove(f"{directory}/{name}")
    # The log goes first: as long as it is a `.swap`, a repetition removes what has its final name.
    for name in sorted(swaps, key=lambda name: not name.endswith(LOG_SUFFIX + SWAP_FILE_SUFFIX)):
        disk.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP_FILE_SUFFIX)}")
        _logger.info("%s/%s was complete and is in place now", directory, name)
    disk.sync_directory(directory)


def _end_offset(disk: Disk, directory: str, base_offset: int) -> int:
    """Where a `.swap` segment ends, exclusive."""
    path = f"{directory}/{segment_file_name(base_offset, LOG_SUFFIX)}{SWAP_FILE_SUFFIX}"
    file = disk.open(path, read_only=True)
    end_offset = base_offset
    try:
        for _, header, _ in scan_batches(path, file, 0, file.size()):
            end_offset = header.last_offset + 1
    except CorruptionError as error:
        _logger.error("%s is damaged: %s", path, error)
    finally:
        file.close()
    return end_offset


def _offset(name: str) -> int:
    offset = parse_offset(name)
    return -1 if offset is None else offset

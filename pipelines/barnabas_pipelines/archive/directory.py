"""How a batch gets into an archive exactly once, whatever is killed at whatever moment.

    ROOT/batch=0/_manifest.json, dt=2026-11-21/*.parquet, ...     what readers see
    ROOT/_archive/staging/_ATTEMPT/...                            what is being written
    ROOT/_archive/checkpoint/                                     Spark's, unless it is elsewhere

A batch is written out of sight, with a manifest of its files and offsets, and then appears under
its number by one rename. A number is taken once; a folder is never written to again.

Whether a record is archived already does not depend on Spark's batch numbers but on the manifests:
each says, per partition, the first offset that the archive does not have (`ends`), and rows below
are left out of the next batch. So it makes no difference what a crash, or a person, did to the
checkpoint: a batch that is done again, in the same or in other portions, adds what is missing and
nothing else. Overwriting the folder of batch N instead would show readers a hole while it lasts,
and would destroy records if the checkpoint were ever lost and numbers began anew.

Not here: what is in the files (`batch_writer.py`), where they are (`storage`).

Invariants: of one archive there is one writer at a time; a second one fails at its rename, without
harm, where renaming is one step. Readers see whole batches there; on object stores, which copy, a
batch may appear file by file, and one that a crash left incomplete is replaced by the next run.
"""

from __future__ import annotations

import re
from typing import Final

from barnabas_pipelines.archive.manifest import FILE_NAME, Manifest, parse_manifest
from barnabas_pipelines.errors import PipelineError
from barnabas_pipelines.storage.file_store import FileStore

STAGING: Final = "_archive/staging"
CHECKPOINT: Final = "_archive/checkpoint"
_BATCH: Final = re.compile(r"batch=(\d+)")


class ArchiveDamagedError(PipelineError):
    """Files of an archive are missing that were there: nothing was changed; restore them."""


class SecondWriterError(PipelineError):
    """Another job has written to the same archive meanwhile; nothing of this batch is there."""


class ArchiveDirectory:
    """The batches of one archive; `recover` comes first, before anything is written."""

    def __init__(self, store: FileStore) -> None:
        self.store = store

    def numbers(self) -> list[int]:
        """The numbers of the batches that are there, rising; there may be holes."""
        matches = (_BATCH.fullmatch(name) for name in self.store.names())
        return sorted(int(match[1]) for match in matches if match is not None)

    def manifest(self, number: int) -> Manifest | None:
        """What a batch holds; None unless the manifest and all files that it lists are there."""
        text = self.store.read(f"{batch_path(number)}/{FILE_NAME}")
        if text is None:
            return None
        try:
            manifest = parse_manifest(text)
        except ValueError:
            return None
        found = self.store.files(batch_path(number))
        is_whole = all(found.get(path) == size for path, size in manifest.files.items())
        return manifest if is_whole else None

    def last(self) -> Manifest | None:
        """The newest batch; None if there is none.

        Raises: ArchiveDamagedError if it is not whole.
        """
        numbers = self.numbers()
        return self._whole(numbers[-1]) if numbers else None

    def recover(self) -> Manifest | None:
        """Take away what dead attempts left behind; returns the newest batch, None without one.

        Raises: ArchiveDamagedError if that is not whole although nobody was writing it.
        """
        numbers = self.numbers()
        if numbers and self.manifest(numbers[-1]) is None and self._was_staged(numbers[-1]):
            # Only a store that copies can leave this behind. What was staged is deleted after it:
            # a crash in between must find the same again.
            self.store.delete(batch_path(numbers[-1]))
        self.store.delete(STAGING)
        return self.last()

    def publish(self, attempt: str, manifest: Manifest) -> None:
        """Make a staged attempt a batch.

        Raises: SecondWriterError.
        """
        staged = staging_path(attempt)
        try:
            self.store.write(f"{staged}/{FILE_NAME}", manifest.to_json())
            self.store.publish(staged, batch_path(manifest.number))
        except (FileExistsError, FileNotFoundError) as error:
            raise SecondWriterError(
                f"somebody else writes to the archive {self.store.url()} too: batch "
                f"{manifest.number} is there already, or what was staged for it is gone; let only "
                "one job write to it, this one will go on where the archive ends"
            ) from error

    def discard(self, attempt: str) -> None:
        """Take away a staged attempt."""
        self.store.delete(staging_path(attempt))

    def _was_staged(self, number: int) -> bool:
        """Whether an attempt is staged that was to become this batch."""
        for attempt in self.store.names(STAGING):
            text = self.store.read(f"{STAGING}/{attempt}/{FILE_NAME}")
            try:
                if text is not None and parse_manifest(text).number == number:
                    return True
            except ValueError:
                continue
        return False

    def _whole(self, number: int) -> Manifest:
        manifest = self.manifest(number)
        if manifest is None:
            raise ArchiveDamagedError(
                f"the archive's newest batch is not whole: files that the manifest of "
                f"{self.store.url(batch_path(number))} lists are missing or cut short, or it is "
                "missing itself; restore them, or, while the topic still has its records, delete "
                "that folder and the checkpoint: the next run goes on behind the batch before it"
            )
        return manifest


def batch_path(number: int) -> str:
    """The folder of a batch."""
    return f"batch={number}"


def staging_path(attempt: str) -> str:
    """The folder of an attempt; readers skip names that begin with an underscore."""
    return f"{STAGING}/_{attempt}"

"""One log directory: its lock, its identity, its checkpoints, whether it is still usable.

Not here: the partition logs in it (`log_manager`, `directory_loader`), and the agreement of several
directories on who they belong to (`log_identity`).

Source: NODE-1 to NODE-8, REC-4, LOG-11. Invariants: an open directory holds its lock; a
directory that went offline never comes back in this run, and nothing writes its checkpoints or its
clean-shutdown marker any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas_broker.log import checkpoints, layout, properties_files
from barnabas_broker.log.ballast import Ballast, NeededDisk
from barnabas_broker.log.checkpoints import CheckpointError, OffsetCheckpoint
from barnabas_broker.log.properties_files import BootMarker, CleanShutdownMarker, MetaProperties
from barnabas_broker.metrics.duration_buckets import DurationBuckets
from barnabas_protocol.ids import ZERO_UUID

if TYPE_CHECKING:
    from barnabas_broker.env.disk import Closeable, Disk
    from barnabas_broker.log.partition_log import PartitionLog
    from barnabas_protocol.ids import TopicPartition


class LogDirectoryLockedError(Exception):
    """Another broker process uses this log directory: start-up must stop."""


class LogDirectory:
    """A directory of partition directories.

    `directory_id` is zero until the identity is established. `was_clean` says whether the last run
    stopped cleanly, `clean_broker_epoch` which broker epoch it had (-1 not known);
    `kept_broker_epoch` is that of the last run if nothing that it had written is lost: it stopped
    cleanly, or the machine has not been down since (else -1). `was_machine_down`: it has been, as
    far as is known. `is_loaded` turns true when every log
    in it was loaded, recovered where needed.
    """

    __slots__ = (
        "_disk",
        "_lock",
        "ballast",
        "boot",
        "clean_broker_epoch",
        "cleaner_offsets",
        "directory_id",
        "error",
        "flush_times",
        "high_watermarks",
        "is_loaded",
        "is_marked_as_kept",
        "kept_broker_epoch",
        "log_start_offsets",
        "logs",
        "marker",
        "needed_disk",
        "path",
        "recovery_points",
        "was_clean",
        "was_machine_down",
    )

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._lock: Closeable | None = None
        self.path = path.rstrip("/") or "/"
        self.ballast = Ballast(disk, self.path)
        # For what may not stop when the disk is full: checkpoints, the metadata log, ...
        self.needed_disk: Disk = NeededDisk(disk, self.ballast)
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.flush_times = DurationBuckets()
        self.directory_id = ZERO_UUID
        self.error: Exception | None = None
        self.is_loaded = False
        self.is_marked_as_kept = False
        self.was_clean = False
        self.clean_broker_epoch = -1
        self.kept_broker_epoch = -1
        self.was_machine_down = False
        self.boot = BootMarker(self.needed_disk, self.path)
        self.marker = CleanShutdownMarker(self.needed_disk, self.path)
        self.recovery_points = self._checkpoint(checkpoints.RECOVERY_POINT_FILE)
        self.log_start_offsets = self._checkpoint(checkpoints.LOG_START_OFFSET_FILE)
        self.high_watermarks = self._checkpoint(checkpoints.HIGH_WATERMARK_FILE)
        self.cleaner_offsets = self._checkpoint(checkpoints.CLEANER_FILE)

    @property
    def is_offline(self) -> bool:
        """Whether the directory failed; `error` says how."""
        return self.error is not None

    @property
    def meta_properties_path(self) -> str:
        """Where the identity is."""
        return f"{self.path}/{properties_files.META_PROPERTIES_FILE}"

    def open(self) -> MetaProperties | None:
        """Make the directory if it is missing, lock it, return the identity in it (None: none yet).

        A failing disk takes the directory offline instead of raising (NODE-8).
        Raises: LogDirectoryLockedError if another process holds it; CheckpointError for an identity
        that cannot be read, which must not be mistaken for an empty directory.
        """
        try:
            self._disk.make_directories(self.path)
            self._lock = self._disk.lock(f"{self.path}/{properties_files.LOCK_FILE}")
            self.ballast.find()
            identity = properties_files.read_meta_properties(self._disk, self.meta_properties_path)
            self.was_clean = self.marker.exists()
            self.clean_broker_epoch = self.marker.broker_epoch()
            self.kept_broker_epoch = max(self.clean_broker_epoch, self.boot.broker_epoch())
            self.was_machine_down = self.boot.is_of_another_boot()
        except BlockingIOError as error:
            raise LogDirectoryLockedError(
                f"{self.path} is locked: another broker is running on it"
            ) from error
        except OSError as error:
            self.fail(error)
            return None
        if identity is not None:
            self.directory_id = identity.directory_id
        return identity

    def partition_directories(self) -> list[tuple[TopicPartition, str]]:
        """Return the partitions that have a directory here, and its path. Raises: OSError."""
        found: list[tuple[TopicPartition, str]] = []
        for name in self._disk.list_directory(self.path):
            topic_partition = layout.parse_partition_directory(name)
            path = f"{self.path}/{name}"
            if topic_partition is not None and self._disk.is_directory(path):
                found.append((topic_partition, path))
        return found

    def has_partitions(self) -> bool:
        """Whether there is any partition, also one that was put aside. Raises: OSError."""
        return any(
            layout.parse_partition_directory(name) or layout.parse_marked_directory(name)
            for name in self._disk.list_directory(self.path)
        )

    def leftover_directories(self) -> list[str]:
        """Return the paths of directories renamed for removal before the last stop. Raises:
        OSError.
        """
        return [
            f"{self.path}/{name}"
            for name in self._disk.list_directory(self.path)
            if layout.is_deleted_directory(name) or layout.is_discarded_directory(name)
        ]

    def stray_names(self) -> list[str]:
        """Return the names of directories that are kept as stray. Raises: OSError."""
        return sorted(filter(layout.is_stray_directory, self._disk.list_directory(self.path)))

    def disk_for(self, topic_partition: TopicPartition) -> Disk:
        """The disk as a partition's log sees it: the broker's own may use the ballast."""
        is_needed = layout.is_needed_by_broker(topic_partition.topic)
        return self.needed_disk if is_needed else self._disk

    def partition_path(self, topic_partition: TopicPartition) -> str:
        """Return where a partition's files are or would be."""
        return f"{self.path}/{layout.partition_directory_name(topic_partition)}"

    def read_offsets(self, checkpoint: OffsetCheckpoint) -> dict[TopicPartition, int]:
        """Return a checkpoint's offsets; a broken file counts as empty, so that more is recovered.

        Raises: OSError.
        """
        try:
            return checkpoint.read()
        except CheckpointError:
            return {}

    def fail(self, error: Exception) -> bool:
        """Note that the directory is unusable. Returns false if that was known already.

        What was written and not synced may be lost by that: no later run may take it for kept.
        `is_marked_as_kept` where the boot marker could not be changed.
        """
        if self.error is not None:
            return False
        try:
            self.boot.forget()
        except OSError:
            self.is_marked_as_kept = True
        self.error = error
        self.is_loaded = False
        return True

    def close(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _checkpoint(self, name: str) -> OffsetCheckpoint:
        return OffsetCheckpoint(self.needed_disk, f"{self.path}/{name}")

"""Metrics of log directories, recovery and compaction.

Read at scrape time from the objects that own the numbers; of a disk only the file system's two
sizes are asked, which it keeps in memory. Metrics of partitions: `replication_metrics`.
Source: MET-1, REC-3, REC-7, NODE-8.
"""

from collections.abc import Callable, Iterator

from barnabas_broker.log.manager.log_manager import LogManager
from barnabas_broker.metrics.sample import Sample


def log_samples(logs: LogManager) -> Iterator[Sample]:
    """Directories, memory, recovery and compaction."""
    yield from _directories(logs)
    yield from _memory(logs)
    yield from _work(logs)


def _directories(logs: LogManager) -> Iterator[Sample]:
    for directory in logs.directories:
        labels = {"directory": directory.path}
        yield Sample(
            "barnabas_log_directory_online",
            "gauge",
            "1 for a log directory in use, 0 for one that failed.",
            labels,
            0 if directory.is_offline else 1,
        )
        yield Sample(
            "barnabas_log_directory_logs",
            "gauge",
            "Partitions in a log directory.",
            labels,
            len(directory.logs),
        )
        yield Sample(
            "barnabas_log_flush_seconds",
            "histogram",
            "Time that flushes of logs took, the wait for a thread of the disk included.",
            labels,
            directory.flush_times.histogram(),
        )
        known = logs.disk_guard.of(directory)
        yield Sample(
            "barnabas_log_directory_guard",
            "gauge",
            "0: room enough; 1: low, no new replicas; 2: full, producers are refused; "
            "3: followers stop, too.",
            labels,
            int(known.room),
        )
        yield Sample(
            "barnabas_log_directory_reserve_bytes",
            "gauge",
            "What is kept free of its file system.",
            labels,
            known.reserve_bytes,
        )
        if not directory.is_offline:
            yield from _space(logs, directory.path)


def _space(logs: LogManager, path: str) -> Iterator[Sample]:
    """The file system of a directory; no samples for one that cannot be read.

    Directories of one file system have the same values.
    """
    rows: tuple[tuple[str, str, Callable[[str], int]], ...] = (
        ("free", "What may still be written to its file system.", logs.disk.free_bytes),
        ("total", "The size of its file system.", logs.disk.total_bytes),
    )
    for name, text, read in rows:
        try:
            value = read(path)
        except OSError:
            continue
        yield Sample(
            f"barnabas_log_directory_{name}_bytes", "gauge", text, {"directory": path}, value
        )


def _memory(logs: LogManager) -> Iterator[Sample]:
    cache = logs.tail_cache
    for name, text, value in (
        ("bytes", "Memory for the newest batches of all logs.", cache.size_bytes),
        ("limit_bytes", "What that memory grows to as records are written.", cache.limit_bytes),
    ):
        yield Sample(f"barnabas_tail_cache_{name}", "gauge", text, {}, value)


def _work(logs: LogManager) -> Iterator[Sample]:
    recovery, cleaner = logs.recovery, logs.cleaner
    counted = cleaner.metrics
    for name, kind, text, value in (
        (
            "recovery_logs_remaining",
            "gauge",
            "Logs still to be loaded at this start.",
            recovery.logs_remaining_count,
        ),
        (
            "recovery_logs_loaded_total",
            "counter",
            "Logs loaded at this start.",
            recovery.logs_loaded_count,
        ),
        (
            "recovery_logs_stray_total",
            "counter",
            "Partition directories put aside at this start.",
            logs.put_aside_count,
        ),
        (
            "log_strays",
            "gauge",
            "Stray partition directories that are kept until somebody restores or deletes them.",
            sum(logs.strays.values()),
        ),
        (
            "log_removals_waiting",
            "gauge",
            "Directories of deleted partitions that wait for their removal.",
            len(logs.removals.paths),
        ),
        ("cleaner_rounds_total", "counter", "Compactions of a log.", counted.rounds_count),
        (
            "cleaner_bytes_read_total",
            "counter",
            "Bytes that compaction read.",
            counted.bytes_read,
        ),
        (
            "cleaner_bytes_written_total",
            "counter",
            "Bytes that compaction wrote.",
            counted.bytes_written,
        ),
        (
            "cleaner_dirty_ratio_max",
            "gauge",
            "The largest part of a compacted log that is not compacted yet.",
            counted.dirty_ratio_max,
        ),
        (
            "cleaner_uncleanable_logs",
            "gauge",
            "Logs that are left alone because their compaction failed.",
            len(cleaner.uncleanable),
        ),
    ):
        yield Sample(f"barnabas_{name}", kind, text, {}, value)

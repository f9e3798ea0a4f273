"""The options of jobs that write tables, as rows; and the upkeep that they ask for. Pure.

Not here: what the upkeep does (`delta.py`).
"""

from __future__ import annotations

from typing import Final

from barnabas_pipelines.jobs.settings import JobOption, JobSettings
from barnabas_pipelines.tables.table import Table

_HOUR_MS: Final = 3_600_000

FILE_SIZE_TARGET: Final = JobOption(
    name="file-size-target",
    kind="bytes",
    default="128 MiB",
    minimum=1,
    meaning="What a file should have: what is written at once is put together into such files, and "
    "--optimize does so with what was written before.",
)
COMPRESSION: Final = JobOption(
    name="compression",
    default="snappy",
    choices=("none", "snappy", "gzip", "zstd", "lz4_raw"),
    meaning="How the columns are compressed.",
)
OPTIMIZE: Final = JobOption(
    name="optimize",
    kind="bool",
    default=False,
    meaning="At the end, put small files of the table together.",
)
VACUUM: Final = JobOption(
    name="vacuum",
    kind="duration",
    meaning="At the end, delete files that only versions older than this need, such as 168h; not "
    "less than a week, unless Delta's own check is switched off.",
)
TABLE_OPTIONS: Final = (FILE_SIZE_TARGET, COMPRESSION, OPTIMIZE, VACUUM)


def upkeep(table: Table, settings: JobSettings) -> list[str]:
    """Do what the options ask for; what was done, in lines."""
    lines = []
    if settings["optimize"]:
        files = table.optimize()
        lines.append(f"optimized: {files['added']:,} files in place of {files['removed']:,}")
    if settings["vacuum"] is not None:
        hours = settings["vacuum"] / _HOUR_MS
        table.vacuum(hours)
        lines.append(f"vacuumed: files that only versions older than {hours:g} h need are deleted")
    return lines

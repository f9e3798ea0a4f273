"""Writes `docs/reference/jobs.md` from the rows of the jobs.

Run as `python -m barnabas_pipelines.jobs.reference [FILE]`. A test compares the file with what this
prints, so that the two cannot drift apart.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from barnabas_pipelines.jobs import JOB_NAMES
from barnabas_pipelines.jobs.job import Job, load_job
from barnabas_protocol.settings.reference import Columns, default_cell, name_cell, table
from barnabas_protocol.settings.setting import Setting

DEFAULT_PATH: Final = "docs/reference/jobs.md"

_INTRODUCTION: Final = """\
# Options of the jobs

This file is written by `python -m barnabas_pipelines.jobs.reference`; change the rows in
`pipelines/barnabas_pipelines/jobs/` instead. What the jobs do, with examples: docs/pipelines.md.

A job is run with `python -m barnabas_pipelines.jobs.NAME`, or by `spark-submit` with the path of
its module. Options stand on the command line (`--trigger "5 minutes"`), in a YAML file that
`--config` names (`trigger: 5 minutes`), or in both; the command line wins. `options` prints such a
file to start from.

| Option of every job | Meaning |
|---|---|
| `--config FILE` | a YAML file with options |
| `--dry-run` | prints what would be done, with what the cluster says now, without Spark |
| `--traceback` | when it fails, prints where, too |
| `--help` | prints the options |

A job ends with exit code 0 when it is done, 1 when it failed, with one line that says why, and 2
when it was used wrongly: an option that is unknown (the nearest is named), missing, out of range or
contradicted by another.

Kinds: `bool` is `--name` or `--no-name`; `duration` is `500ms`, `10s`, `15m`, `2h` or `1d`; `bytes`
is `1048576`, `64 MiB` or `1 GiB`; `names` are separated by commas, or a list in YAML; `pairs` are
`--name a=b`, as often as wanted, or a mapping in YAML; a `document` is any YAML.
"""


_COLUMNS: Final[Columns[Setting]] = {
    "Option": name_cell,
    "Kind": lambda row: row.kind.name,
    "Default": default_cell,
    "Valid": lambda row: row.range_text,
    "Meaning": lambda row: row.why,
}


def render() -> str:
    """The whole page."""
    return (
        "\n".join(
            [_INTRODUCTION, *(line for name in JOB_NAMES for line in _section(load_job(name)))]
        )
        + "\n"
    )


def _section(job: Job) -> Iterator[str]:
    yield f"## {job.name}"
    yield ""
    yield job.summary
    yield ""
    yield from table(job.options, _COLUMNS)
    yield ""


def main(arguments: list[str]) -> None:
    """Write the file that the first argument names, else the one in `docs/`."""
    path = Path(arguments[0] if arguments else DEFAULT_PATH)
    path.write_text(render().rstrip("\n") + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])

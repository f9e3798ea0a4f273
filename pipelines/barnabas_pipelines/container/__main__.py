"""The entry point of the image: `python -m barnabas_pipelines.container ARGUMENT...`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from barnabas_pipelines.container.command import ContainerError, command, job_names
from barnabas_pipelines.container.first_process import run

_JOBS = Path(__file__).resolve().parent.parent / "jobs"


def main() -> int:
    """Run what the arguments say; its exit code."""
    try:
        found = command(sys.argv[1:], os.environ, job_names(_JOBS))
    except ContainerError as error:
        print(f"barnabas: {error}", file=sys.stderr)  # noqa: T201
        return 2
    return run(found)


if __name__ == "__main__":
    sys.exit(main())

"""`python -m barnabas_pipelines.jobs`: the jobs that there are."""

from __future__ import annotations

import sys

from barnabas_pipelines.jobs import JOB_NAMES
from barnabas_pipelines.jobs.job import DONE, WRONG_USE, load_job


def main(arguments: list[str]) -> int:
    """List the jobs; the exit code."""
    if arguments and arguments != ["--help"]:
        sys.stderr.write(
            f"unexpected argument: {arguments[0]}; a job is run with "
            "python -m barnabas_pipelines.jobs.NAME\n"
        )
        return WRONG_USE
    width = max(map(len, JOB_NAMES))
    lines = ["python -m barnabas_pipelines.jobs.NAME [--help | options | --dry-run] ...", ""]
    lines += [f"  {name:<{width}}  {load_job(name).summary}" for name in JOB_NAMES]
    sys.stdout.write("\n".join(lines) + "\n")
    return DONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

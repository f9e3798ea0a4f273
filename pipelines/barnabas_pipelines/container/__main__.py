"""The entry point of the image: `python -m barnabas_pipelines.container ARGUMENT...`."""

from __future__ import annotations

import os
import sys

from barnabas_pipelines.container.command import ContainerError, command
from barnabas_pipelines.container.first_process import run


def main() -> int:
    """Run what the arguments say; its exit code."""
    try:
        found = command(sys.argv[1:], os.environ)
    except ContainerError as error:
        print(f"barnabas: {error}", file=sys.stderr)  # noqa: T201
        return 2
    return run(found)


if __name__ == "__main__":
    sys.exit(main())

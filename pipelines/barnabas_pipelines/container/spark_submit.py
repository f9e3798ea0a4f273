"""`spark-submit` without a shell: what the script of Spark's distribution does, in Python.

The image has no shell, which Spark's own scripts are written for. The file `bin/spark-submit` of
the image calls `main`; pyspark starts its JVM through it, too.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

from barnabas_pipelines.container.command import ContainerError, launched, launcher

_SCALA_VERSION: Final = "2.13"
"""Of every Spark 4; without it the launcher looks for a folder of Spark's own build."""


def main() -> None:
    """Become the JVM of the arguments; ends the process where there is none."""
    variables = dict(os.environ)
    variables.setdefault("SPARK_CONF_DIR", f"{variables.get('SPARK_HOME', '')}/conf")
    variables.setdefault("SPARK_SCALA_VERSION", _SCALA_VERSION)
    # Workers on different machines must agree on the hash of a string.
    variables["PYTHONHASHSEED"] = "0"
    try:
        printed = subprocess.run(
            launcher(sys.argv[1:], variables), env=variables, stdout=subprocess.PIPE, check=False
        )
        if printed.returncode != 0:
            sys.stderr.write(printed.stdout.decode(errors="replace"))
            sys.exit(printed.returncode)
        found = launched(printed.stdout)
    except ContainerError as error:
        sys.exit(f"spark-submit: {error}")
    os.execve(found[0], found, variables)

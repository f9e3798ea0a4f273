"""What a program prints in processes whose hashes of strings differ."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent.parent
HASH_SEEDS: Final = ("1", "3")
"""By these, sets of two or three partitions of the stories' topics lie in different orders."""


def printed_with_other_hashes(program: str) -> set[str]:
    """Return what it prints: one text if nothing depends on the order of a set of strings."""
    return {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout
        for seed in HASH_SEEDS
    }

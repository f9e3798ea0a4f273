"""Which seeds to run: the first few, or as many as `SIM_SEEDS` says, or the one in `SEED`."""

import os
from collections.abc import Callable


def seeds(count: int) -> list[int]:
    """The seeds of a test whose share of the default run is `count`."""
    chosen = os.environ.get("SEED")
    if chosen is not None:
        return [int(chosen)]
    return list(range(int(os.environ.get("SIM_SEEDS", count))))


def run_seeds(count: int, run: Callable[[int], None]) -> None:
    """Run a story for each seed; the first failure says how to repeat it."""
    for seed in seeds(count):
        try:
            run(seed)
        except BaseException as error:
            error.add_note(f"repeat it with: make sim SEED={seed}")
            raise

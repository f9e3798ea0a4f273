"""Garbage is collected without a look at what the console loaded (`garbage_collection`)."""

import subprocess
import sys

#: What a collection of everything may visit: a millisecond for some 2,500 objects.
VISITED_MAX = 5_000

_CODE = """
import gc
import barnabas_console.server
from barnabas_console.garbage_collection import forget_start_up
before = len(gc.get_objects())
forget_start_up()
print(before, len(gc.get_objects()))
"""


def test_a_collection_visits_nothing_of_what_was_loaded_at_the_start() -> None:
    """CON-174: no turn of the loop above 10 ms; one of everything took up to 50."""
    done = subprocess.run([sys.executable, "-c", _CODE], capture_output=True, check=True, text=True)
    before, after = map(int, done.stdout.split())
    assert before > 10 * VISITED_MAX
    assert after < VISITED_MAX


_LOADING = """
import gc
from barnabas_console.garbage_collection import paused
collections = []
gc.callbacks.append(lambda phase, info: collections.append(phase))
with paused():
    import barnabas_console.server
print(len(collections), gc.isenabled(), len(gc.get_objects()))
"""


def test_nothing_is_collected_while_modules_are_loaded() -> None:
    """CON-174: up after a second; collections were a fifth of the time of a start."""
    done = subprocess.run(
        [sys.executable, "-c", _LOADING], capture_output=True, check=True, text=True
    )
    collections, is_on, left = done.stdout.split()
    assert (collections, is_on) == ("0", "True")
    assert int(left) < VISITED_MAX

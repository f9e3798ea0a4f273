"""A seed is a whole story of a whole cluster: it can be told again."""

import subprocess
import sys

import pytest

from tests.simulation.cluster.story import Story
from tests.support.other_hashes import ROOT, printed_with_other_hashes


def fingerprint(seed: int) -> tuple[int, int]:
    """All disk operations, traffic and answers of a story, in order and with their times."""
    story = Story(seed, is_compared=True)
    story.run()
    return story.cluster.trace.fingerprint, story.cluster.trace.count


@pytest.mark.timeout(60)
def test_a_seed_gives_the_same_story_again() -> None:
    """style.md section 9: without this, a seed in a report would be worth nothing.

    In a process of its own: what other tests have left would be collected meanwhile.
    """
    program = (
        "from tests.simulation.cluster.test_replays import fingerprint as f;"
        "assert f(1) == f(1); assert f(1) != f(2)"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


@pytest.mark.timeout(60)
def test_another_process_with_other_hashes_tells_the_same_story() -> None:
    """The order of a set of strings differs from process to process: nothing may depend on it."""
    program = "from tests.simulation.cluster.test_replays import fingerprint as f; print(f(3))"
    found = printed_with_other_hashes(program)
    assert len(found) == 1, found

"""Our own clients on clusters that fail: `python -m tests.simulation.together` tells hundreds."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from tests.simulation.together.bugs import told_with
from tests.simulation.together.telling import tell
from tests.support.other_hashes import printed_with_other_hashes

SEEDS = (0, 1, 2, 7, 8, 12, 18, 38, 321)
FOUND_BY = {
    "no doubt": 206,
    "numbered anew": 10,
    "commits ahead": 2,
    "poll loses": 2,
    "marker lost": 100,
    "abort commits": 100,
    "unfenced": 107,
    "aborted offsets": 100,
    "late end": 106,
    "late add": 165,
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.timeout(1200)
def test_clients_keep_their_word_on_a_cluster_that_fails(seed: int) -> None:
    """Acknowledged is there, failed for certain is nowhere, committed was handed out."""
    told = tell(seed)
    assert not told.reason
    assert told.sent and told.handed


@pytest.mark.timeout(1200)
def test_a_story_that_failed_ends_well() -> None:
    """A disk was lost that the controller could not know of before all others were down."""
    assert not tell(52).reason


@pytest.mark.parametrize("seed", (2, 12))
@pytest.mark.timeout(1200)
def test_a_story_is_told_the_same_again(seed: int) -> None:
    """The seed decides everything, the programs' part of it as well; 12 has two log directories."""
    assert tell(seed, is_compared=True) == tell(seed, is_compared=True)


@pytest.mark.parametrize("seed", (2, 12))
@pytest.mark.timeout(1200)
def test_another_process_with_other_hashes_tells_the_same_story(seed: int) -> None:
    """A seed that finds a fault finds it in every process."""
    program = (
        "from tests.simulation.together.telling import tell;"
        f"print(tell({seed}, is_compared=True).fingerprint)"
    )
    found = printed_with_other_hashes(program)
    assert len(found) == 1, found


@pytest.mark.parametrize("name", FOUND_BY)
@pytest.mark.timeout(1200)
def test_a_planted_fault_is_found(name: str) -> None:
    """By the seed that found it, or one of dozens: a change of the stories moves what each tells.

    What a story leaves that fails goes with its process.
    """
    seeds = (FOUND_BY[name], *range(100, 170))
    with ProcessPoolExecutor(1, mp_context=get_context("forkserver")) as pool:
        assert any(pool.submit(told_with, name, seed).result() for seed in seeds)

"""A seed is a whole story: it can be told again."""

import hashlib

import pytest

from tests.simulation.crashes import Faults, Story
from tests.support.other_hashes import printed_with_other_hashes


def fingerprint(seed: int) -> str:
    """Every operation of the disk with its time, every answer: all that is to be the same."""
    story = Story(seed, Faults.POWER_AND_FSYNC)
    story.run()
    digest = hashlib.sha256()
    for operation in story.machine.disk.trace:
        digest.update(repr(operation).encode())
    for topic in story.history.topics.values():
        for partition in topic.partitions:
            digest.update(repr(partition.seen).encode())
            digest.update(repr([append.base_offset for append in partition.appends]).encode())
    digest.update(repr(story.machine.lines).encode())
    return digest.hexdigest()


def test_the_same_seed_gives_the_same_trace() -> None:
    """style.md section 9: without this, a seed in a report would be worth nothing."""
    assert fingerprint(1) == fingerprint(1)
    assert fingerprint(1) != fingerprint(2)


@pytest.mark.timeout(60)
def test_another_process_with_other_hashes_gives_the_same_trace() -> None:
    """The order of a set of strings differs from process to process: nothing may depend on it."""
    program = "from tests.simulation.test_replay import fingerprint; print(fingerprint(3))"
    found = printed_with_other_hashes(program)
    assert len(found) == 1, found

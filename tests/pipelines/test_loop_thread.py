"""Clients that are kept between calls: few, whole, and not those of the parent process."""

import subprocess
import sys
from collections.abc import Hashable, Iterator

import pytest

from barnabas_pipelines.datasource import loop_thread
from barnabas_pipelines.datasource.loop_thread import KEPT_MAX, KeptClients

FORK = """
import os
from barnabas_pipelines.datasource.loop_thread import KeptClients, loop_thread

class Client:
    async def close(self):
        pass

async def make(key):
    return Client()

kept = KeptClients(make)
with kept.borrow("a") as parents:
    pass
child = os.fork()
if not child:
    with kept.borrow("a") as childs:
        os._exit(0 if childs is not parents else 1)
_, status = os.waitpid(child, 0)
with kept.borrow("a") as again:
    assert again is parents
raise SystemExit(os.waitstatus_to_exitcode(status))
"""


class Client:
    """Knows whether it was closed."""

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.is_closed = False

    async def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def kept() -> Iterator[KeptClients[Client]]:
    async def make(key: Hashable) -> Client:
        return Client(key)

    yield KeptClients(make)
    loop_thread.close_all()


def test_a_client_is_kept_for_the_next_use_of_its_key(kept: KeptClients[Client]) -> None:
    """Connecting costs more than most calls."""
    with kept.borrow("a") as first:
        pass
    with kept.borrow("a") as again, kept.borrow("a") as other, kept.borrow("b") as third:
        assert again is first
        assert len({id(one) for one in (again, other, third)}) == 3


def test_no_more_than_a_few_are_kept_and_the_oldest_are_closed(kept: KeptClients[Client]) -> None:
    """A session that reads from many clusters must not keep connections to all of them."""
    used = []
    for key in range(KEPT_MAX + 3):
        with kept.borrow(key) as client:
            used.append(client)
    assert [client.key for client in used if client.is_closed] == [0, 1, 2]


def test_a_client_that_something_went_wrong_with_is_not_used_again(
    kept: KeptClients[Client],
) -> None:
    """Nobody knows in which state it is."""
    with pytest.raises(ValueError, match="broken"), kept.borrow("a") as first:
        raise ValueError("broken")
    assert first.is_closed
    with kept.borrow("a") as second:
        assert second is not first


def test_all_are_closed_at_the_end_and_it_can_begin_anew(kept: KeptClients[Client]) -> None:
    """At exit; and between tests."""
    with kept.borrow("a") as first:
        pass
    loop_thread.close_all()
    assert first.is_closed
    with kept.borrow("a") as second:
        assert second is not first


def test_a_forked_process_does_not_use_its_parents_clients() -> None:
    """Spark forks workers; two processes on one socket would read each other's answers."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK], timeout=60, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()

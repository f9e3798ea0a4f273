"""The contract of random draws, on the system's and on the seeded ones."""

import base64
from collections.abc import Callable

import pytest

from barnabas_broker.env.randomness import Random, SystemRandom, uuid_from
from tests.support.simulated_random import SimulatedRandom

both = pytest.mark.parametrize("make", [SystemRandom, SimulatedRandom], ids=["real", "simulated"])


@both
def test_uuids_are_random_version_4_and_safe_on_a_command_line(make: Callable[[], Random]) -> None:
    """A topic id whose text starts with a dash would be taken for an option."""
    random = make()
    uuids = [random.uuid() for _ in range(2_000)]
    assert len(set(uuids)) == len(uuids)
    for uuid in uuids:
        assert len(uuid) == 16
        assert uuid[6] >> 4 == 4
        assert not base64.urlsafe_b64encode(uuid).startswith(b"-")


@both
def test_draws_stay_in_their_range(make: Callable[[], Random]) -> None:
    random = make()
    assert {random.integer(3) for _ in range(300)} == {0, 1, 2}
    assert all(0 <= random.fraction() < 1 for _ in range(300))
    items = list(range(50))
    random.shuffle(items)
    assert sorted(items) == list(range(50))


def test_a_seed_repeats_its_draws() -> None:
    """A failed simulation is replayed by its seed."""

    def draws(random: SimulatedRandom) -> list[object]:
        return [random.integer(100), random.uuid(), random.fraction()]

    assert draws(SimulatedRandom(7)) == draws(SimulatedRandom(7))
    assert draws(SimulatedRandom(7)) != draws(SimulatedRandom(8))


def test_a_uuid_with_a_leading_dash_is_drawn_again() -> None:
    drawn = iter([b"\xf8" * 16, b"\xfb" * 16, b"\x01" * 16])
    assert uuid_from(lambda count: next(drawn))[0] == 1

"""A load of Java's producer whose every acknowledged record is looked for in the end."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.e2e.support.client_pods import ClientPod, Fared, JavaLoad
from tests.e2e.support.figures import Figures
from tests.support.history import read_acknowledged, violations


@contextmanager
def checked(
    load: JavaLoad, reader: ClientPod, figures: Figures, name: str, *, partition_count: int = 6
) -> Iterator[JavaLoad]:
    """The load is on inside of the block; after it there must be no error and no lost record."""
    load.start(partition_count)
    try:
        yield load
        load.goes_on()
        fared = load.end()
        figures.note(name, fared)
        assert fared.errors == 0, fared
        assert fared.acknowledged == fared.sent, fared
        check_history(load, reader, fared)
    finally:
        load.remove()


def check_history(load: JavaLoad, reader: ClientPod, fared: Fared) -> None:
    """Every acknowledged record is there once, in order, where it was acknowledged."""
    acknowledged = read_acknowledged(load.acknowledged())
    assert sum(map(len, acknowledged.values())) == fared.acknowledged
    assert violations(acknowledged, reader.read_numbers(load.topic)) == []

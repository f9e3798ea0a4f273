"""The line of runs that write with one checkpoint: each has an identity that nobody else has."""

import threading
from pathlib import Path

import pytest

from barnabas_client.producer import ProducerIdentity
from barnabas_client.producer.idempotence import EPOCH_MAX
from barnabas_pipelines.aggregate.writer_epochs import Place, WriterEpochs
from barnabas_pipelines.errors import PipelineError
from barnabas_pipelines.storage.file_store import LocalFiles

FIRST = ProducerIdentity(7, 0)


@pytest.fixture(name="epochs")
def a_line(tmp_path: Path) -> WriterEpochs:
    """A line that nobody has stood in."""
    return WriterEpochs(LocalFiles(tmp_path), "aggregate")


def take(epochs: WriterEpochs, cluster_id: str = "c", new: ProducerIdentity = FIRST) -> Place:
    return epochs.take(cluster_id, lambda: new)


def test_each_run_has_a_higher_epoch_of_the_same_producer(epochs: WriterEpochs) -> None:
    """That is what brokers fence by."""
    assert epochs.newest() == 0
    places = [take(epochs) for _ in range(3)]
    assert [place.identity for place in places] == [(7, 0), (7, 1), (7, 2)]
    assert epochs.newest() == places[-1].number == 3


def test_the_line_does_not_grow(epochs: WriterEpochs, tmp_path: Path) -> None:
    """A CronJob takes a place a minute."""
    for _ in range(20):
        take(epochs)
    assert [one.name for one in (tmp_path / "writers/aggregate").iterdir()] == ["00000020.json"]


def test_runs_that_begin_at_once_have_places_of_their_own(epochs: WriterEpochs) -> None:
    """Records of two producers with one identity would be taken for repeated ones, and dropped."""
    places: list[Place] = []
    barrier = threading.Barrier(8)

    def run() -> None:
        barrier.wait(30)
        places.extend(take(epochs) for _ in range(5))

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len({place.identity for place in places}) == len(places) == 40
    epochs_by_number = [place.identity for place in sorted(places, key=lambda one: one.number)]
    assert epochs_by_number == sorted(epochs_by_number)


def test_a_producer_id_whose_epochs_are_used_up_gives_way_to_another(
    epochs: WriterEpochs, tmp_path: Path
) -> None:
    """Epochs have 15 bits."""
    take(epochs, new=ProducerIdentity(7, EPOCH_MAX))
    assert take(epochs, new=ProducerIdentity(8, 0)).identity == (8, 0)


def test_another_cluster_gives_its_own_producer_id(epochs: WriterEpochs) -> None:
    """There, the id may be somebody else's."""
    take(epochs, "one")
    assert take(epochs, "two", ProducerIdentity(3, 0)).identity == (3, 0)


def test_a_file_of_something_else_is_named(epochs: WriterEpochs, tmp_path: Path) -> None:
    """To begin anew without a word would take the fence away."""
    take(epochs)
    (tmp_path / "writers/aggregate/00000001.json").write_text("{}")
    with pytest.raises(PipelineError, match="writers/aggregate cannot be read"):
        take(epochs)

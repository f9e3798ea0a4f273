"""Who writes the rows of a checkpoint: one producer id, and a higher producer epoch for each run.

A run takes its place in the line before it reads anything of the checkpoint: a file of its own,
`writers/SINK/NUMBER.json`, which only one run can create. Brokers refuse records of a producer
epoch once a partition has records of a higher one, so that a driver that was given up and is still
alive cannot write over what a later one has written.

Not here: writing (`topic_writer.py`). Needs no Spark.

Invariants: no two runs of a checkpoint get the same identity; a later run has a higher epoch, or
another producer id where epochs are used up (32,768 runs) or the cluster is another.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from barnabas_client.producer import ProducerIdentity
from barnabas_client.producer.idempotence import EPOCH_MAX
from barnabas_pipelines.errors import PipelineError
from barnabas_pipelines.storage.file_store import FileStore

_FOLDER: Final = "writers"
_SUFFIX: Final = ".json"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A run's place in the line of those that write: its number, and as whom it writes."""

    number: int
    identity: ProducerIdentity


class WriterEpochs:
    """The line of one sink of a checkpoint."""

    def __init__(self, store: FileStore, sink: str) -> None:
        self._store = store
        self._folder = f"{_FOLDER}/{sink}"

    def take(self, cluster_id: str, new_identity: Callable[[], ProducerIdentity]) -> Place:
        """The place behind all others; `new_identity` gives a producer id that nobody has.

        Raises: PipelineError if a file of the line is of something else.
        """
        while True:
            last = self.newest()
            identity = self._next_identity(last, cluster_id, new_identity)
            place = Place(number=last + 1, identity=identity)
            # Who looked at the line long ago may create a number that was removed since.
            if self._create(place, cluster_id) and self.newest() == place.number:
                break
        for number in self._numbers():
            if number < place.number:
                self._store.remove(self._path(number))
        return place

    def newest(self) -> int:
        """The number of the last run that took a place; 0 if none did."""
        return max(self._numbers(), default=0)

    @property
    def folder(self) -> str:
        """Where the line is."""
        return self._store.url(self._folder)

    def _next_identity(
        self, last: int, cluster_id: str, new_identity: Callable[[], ProducerIdentity]
    ) -> ProducerIdentity:
        text = self._store.read(self._path(last)) if last else None
        if text is None:
            return new_identity()
        try:
            document = json.loads(text)
            if document["version"] != _VERSION:
                raise ValueError(f"version {document['version']}")
            known = ProducerIdentity(document["producer_id"], document["producer_epoch"])
            known_cluster = document["cluster_id"]
        except (ValueError, KeyError, TypeError) as error:
            raise PipelineError(f"{self.folder} cannot be read: {error!r}") from error
        if known_cluster != cluster_id or known.producer_epoch >= EPOCH_MAX:
            return new_identity()
        return known._replace(producer_epoch=known.producer_epoch + 1)

    def _create(self, place: Place, cluster_id: str) -> bool:
        document = {"version": _VERSION, "cluster_id": cluster_id, **place.identity._asdict()}
        return self._store.create(self._path(place.number), json.dumps(document) + "\n")

    def _numbers(self) -> list[int]:
        stems = [
            name.removesuffix(_SUFFIX)
            for name in self._store.names(self._folder)
            if name.endswith(_SUFFIX)
        ]
        return sorted(int(stem) for stem in stems if stem.isdecimal())

    def _path(self, number: int) -> str:
        return f"{self._folder}/{number:08d}{_SUFFIX}"
